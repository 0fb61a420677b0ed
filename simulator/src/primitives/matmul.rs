//! Matrix products, and cuBLAS's workspace.

use crate::clock::Pass;
use crate::tape::{Backward, Batched, Block, Library, ParamId, Prim, Product, Scope, Tape, Tensor};
use crate::tensor::{DType, Shape};
use crate::wire::scenario::BaseFormat;

use super::reshape::four;
use super::work::product;

/// cuBLAS workspace on compute capability 9.0 and 10.0, bytes.
const LARGE_WORKSPACE: u64 = 4096 * 8 * 1024;
/// cuBLAS workspace elsewhere, bytes.
const WORKSPACE: u64 = 4096 * 1024 * 2 + 16 * 1024 * 8;
/// cuBLASLt workspace, bytes.
const LT_WORKSPACE: u64 = 1024 * 1024;
/// Workspace that Transformer Engine gives to cuBLASLt from Hopper on, and before.
const ENGINE_WORKSPACE: u64 = 32 * 1024 * 1024 + 1024;
const SMALL_ENGINE_WORKSPACE: u64 = 4 * 1024 * 1024;

impl Tape {
    /// An `nn.Linear` with a weight `[outer, inner]`, and the adapter beside it when it has one.
    pub fn linear(&mut self, x: &Tensor, weight: ParamId, bias: Option<ParamId>) -> Tensor {
        let weight = self.param(weight).untied.unwrap_or(weight);
        if self.param(weight).split.is_some() {
            let x = self.distributed_input(x, weight);
            let part = self.plain_linear(&x, weight, bias);
            self.release(x);
            return self.distributed_output(part, weight);
        }
        let result = if self.param(weight).base == BaseFormat::Whole {
            self.plain_linear(x, weight, bias)
        } else {
            self.quantised_linear(x, weight, bias)
        };
        self.adapted(x, result, weight)
    }

    /// transformers' `Conv1D` with a weight `[inner, outer]`, and the adapter beside it when it has
    /// one.
    pub fn conv1d(&mut self, x: &Tensor, weight: ParamId, bias: ParamId) -> Tensor {
        let result = self.plain_conv1d(x, weight, bias);
        self.adapted(x, result, weight)
    }

    /// `F.linear(x, weight, bias)` with a weight `[outer, inner]`, under autocast when it is on.
    ///
    /// Without bias it is `mm` (`at::linear` → `at::matmul`); with bias `addmm`. Autocast casts the
    /// arguments from the last to the first.
    pub(super) fn plain_linear(
        &mut self,
        x: &Tensor,
        weight: ParamId,
        bias: Option<ParamId>,
    ) -> Tensor {
        if bias.is_some() && self.autocast().is_some() {
            // at::linear under autocast: (input, weight, bias), last first.
            let bias = bias.map(|id| self.cast_weight(id));
            let cast = self.cast_weight(weight);
            let x = self.cast_input(x);
            let bias = bias.map(|bias| self.partial_bias(bias, weight));
            return self.multiply(x, cast, bias, true);
        }
        let bias = bias.map(|id| self.weight(id));
        let bias = bias.map(|bias| self.partial_bias(bias, weight));
        let weight = self.cast_weight(weight);
        let x = self.cast_input(x);
        self.multiply(x, weight, bias, true)
    }

    /// `F.linear(x, weight)` with a weight that was computed, which autocast's cache does not hold.
    pub fn linear_of(&mut self, x: &Tensor, weight: &Tensor) -> Tensor {
        let weight = self.cast_input(weight);
        let x = self.cast_input(x);
        self.multiply(x, weight, None, true)
    }

    /// transformers' `Conv1D`: `addmm(bias, x, weight)` with a weight `[inner, outer]`.
    fn plain_conv1d(&mut self, x: &Tensor, weight: ParamId, bias: ParamId) -> Tensor {
        let weight = self.cast_weight(weight);
        let x = self.cast_input(x);
        let bias = self.cast_weight(bias);
        self.multiply(x, weight, Some(bias), false)
    }

    fn multiply(
        &mut self,
        x: Tensor,
        weight: Tensor,
        bias: Option<Tensor>,
        transposed: bool,
    ) -> Tensor {
        let outer = if transposed { weight.shape.sizes()[0] } else { weight.shape.last() };
        let (rows, inner) = (x.shape.rows(), x.shape.last());
        let prim = if bias.is_some() { Prim::Addmm } else { Prim::Linear };
        let sizes =
            Product { rows, inner, outer, bias: bias.is_some(), transposed, input: x.shape };
        let rule = Backward::Linear(sizes);
        let inputs: Vec<&Tensor> = [&x, &weight].into_iter().chain(bias.as_ref()).collect();
        // `LinearFunctionForZeroStage3` saves what it needs when it has multiplied.
        let replaced = transposed && self.gathers_weights();
        let early = replaced.then(|| self.product(&sizes, x.dtype, prim));
        let node = self.records(&inputs).then(|| {
            let mut node = self.begin_node(prim, rule, &inputs);
            // By name: `addmm` keeps mat1, mat2; `mm` keeps mat2, self.
            let pairs = [(&x, &weight), (&weight, &x)];
            let order = if bias.is_some() { [0, 1] } else { [1, 0] };
            for (kept, other) in order.map(|i| pairs[i]) {
                if other.requires_grad() {
                    self.save(&mut node, kept);
                }
            }
            node
        });
        let out = early.unwrap_or_else(|| {
            let out = self.product(&sizes, x.dtype, prim);
            if bias.is_some() && 1 < rows.min(inner).min(outer) {
                self.workspace(Library::BlasLt);
            }
            out
        });
        let out = self.with_node(out, node);
        for tensor in [Some(x), Some(weight), bias].into_iter().flatten() {
            self.release(tensor);
        }
        out
    }

    /// The result of a product, which is run.
    fn product(&mut self, sizes: &Product, dtype: DType, prim: Prim) -> Tensor {
        let &Product { rows, inner, outer, input, .. } = sizes;
        let out = self.empty(input.with_last(outer), dtype, prim);
        self.workspace(Library::Blas);
        self.run(prim, product([rows, outer, inner, 1], Pass::Forward, dtype));
        out
    }

    /// `torch.matmul(left, right)` of `[batch, heads, m, k] × [batch, heads, k, n]`, or of
    /// `right.transpose(2, 3)` with `right` as `[batch, heads, n, k]`.
    ///
    /// `matmul` folds to `bmm`: operands are expanded and reshaped to three dimensions, which copies
    /// an operand whose two outer dimensions cannot be merged (`at::native::_matmul_impl`).
    pub fn bmm(&mut self, left: &Tensor, right: &Tensor, transposed: bool) -> Tensor {
        let right = self.cast_input(right);
        let left = self.cast_input(left);
        let [batch, heads, m, k] = four(&left);
        let [_, _, rows, columns] = four(&right);
        let n = if transposed { rows } else { columns };
        // What autocast made is an argument until the product returns.
        let arguments = [&left, &right].map(|argument| self.share(argument));
        let left = self.fold(left);
        let right = self.over_heads(right, heads);
        let right = self.fold(right);
        let rule = Backward::Bmm(Batched {
            batch: batch * heads,
            m,
            k,
            n,
            transposed,
            inputs: [left.shape, right.shape],
        });
        let node = self.records(&[&left, &right]).then(|| {
            let mut node = self.begin_node(Prim::Bmm, rule, &[&left, &right]);
            // By name: mat2 before self.
            if left.requires_grad() {
                self.save(&mut node, &right);
            }
            if right.requires_grad() {
                self.save(&mut node, &left);
            }
            node
        });
        let folded = self.empty(Shape::new([batch, heads, m, n]), left.dtype, Prim::Bmm);
        self.workspace(Library::Blas);
        self.run(Prim::Bmm, product([m, n, k, batch * heads], Pass::Forward, left.dtype));
        let folded = self.with_node(folded, node);
        for tensor in [right, left].into_iter().chain(arguments) {
            self.release(tensor);
        }
        let out = self.fold(folded);
        Tensor { view: false, ..out }
    }

    /// One head seen as many, where the other operand has more.
    fn over_heads(&mut self, x: Tensor, heads: u64) -> Tensor {
        if four(&x)[1] == heads {
            return x;
        }
        let seen = self.expand_heads(&x, heads);
        self.release(x);
        seen
    }

    /// `reshape` between `[batch, heads, m, n]` and `[batch · heads, m, n]`: shapes are kept as four
    /// dimensions here; memory in another order is copied.
    fn fold(&mut self, x: Tensor) -> Tensor {
        let rule = Backward::Reshape { input: x.shape };
        let node = self.records(&[&x]).then(|| self.begin_node(Prim::Copy, rule, &[&x]));
        let out = self.reshaped(&x, x.shape);
        self.release(x);
        self.with_node(out, node)
    }

    /// The workspace that a library keeps for each thread that issues matrix products; it comes
    /// after the product's result. The forward thread and autograd's thread have a handle each.
    ///
    /// Source: `aten/src/ATen/cuda/CublasHandlePool.cpp`: `parseChosenWorkspaceSize` gives cuBLAS
    /// 32 MiB on compute capability 9.0 and 10.0, else 2 × 4 MiB + 8 × 16 KiB;
    /// `parseCUDABlasLtWorkspaceSize` gives cuBLASLt 1 MiB. `isInputCompliesAddmmCudaLt` in
    /// `aten/src/ATen/native/cuda/Blas.cpp` sends products with a bias to the latter.
    pub fn workspace(&mut self, library: Library) {
        let backward = self.scope().backward && library != Library::Engine;
        if self.stopped() || self.has_workspace(library, backward) {
            return;
        }
        let large = matches!(self.device.capability, (9 | 10, 0));
        let (module, bytes) = match library {
            Library::Blas if large => ("cublas", LARGE_WORKSPACE),
            Library::Blas => ("cublas", WORKSPACE),
            Library::BlasLt => ("cublaslt", LT_WORKSPACE),
            // `get_cublas_workspace_size_bytes`, Transformer Engine 2.11.
            Library::Engine if 9 <= self.device.capability.0 => ("cublaslt", ENGINE_WORKSPACE),
            Library::Engine => ("cublaslt", SMALL_ENGINE_WORKSPACE),
        };
        let scope = self.scope();
        // Not entered: the module that multiplies is still the one that runs.
        self.set_scope(Scope { block: Block::Library, module, ..scope });
        let storage = self.allocate(bytes, Prim::Workspace);
        self.set_workspace(library, backward, storage);
        self.set_scope(scope);
    }

    /// Under autocast, an input in autocast's dtype; else the input.
    pub fn cast_input(&mut self, x: &Tensor) -> Tensor {
        match self.autocast() {
            Some(dtype) => self.cast(x, dtype),
            None => self.share(x),
        }
    }

    /// Under autocast, a weight in autocast's dtype from its cache; else the weight.
    ///
    /// Source: `cached_cast` in `aten/src/ATen/autocast_mode.cpp`: fp32 leaves that require a gradient
    /// are cast once and kept until the outermost autocast ends.
    pub fn cast_weight(&mut self, id: ParamId) -> Tensor {
        let weight = self.weight(id);
        let Some(dtype) = self.autocast().filter(|&dtype| dtype != weight.dtype) else {
            return weight;
        };
        if let Some((storage, source)) = self.param(id).cast {
            let cached = Tensor { storage, dtype, source, ..weight };
            let handle = self.share(&cached);
            self.release(weight);
            return handle;
        }
        let cast = self.cast(&weight, dtype);
        let is_kept = self.param(id).trainable;
        self.release(weight);
        if !self.stopped() && is_kept {
            let kept = self.share(&cast);
            self.param_mut(id).cast = Some((kept.storage, kept.source));
        }
        cast
    }

    /// Ends the outermost autocast: the cache of weights falls.
    pub fn end_autocast(&mut self) {
        self.set_autocast(None);
        for index in 0..self.n_params() {
            let id = ParamId::new(index);
            if let Some((storage, _)) = self.param_mut(id).cast.take() {
                self.enter_layer(self.param(id).layer);
                self.release_storage(storage);
            }
        }
        self.enter_layer(None);
    }
}
