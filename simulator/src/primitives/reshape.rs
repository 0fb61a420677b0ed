//! Views, slices, concatenation, repetition: primitives that move data or only rename it.

use crate::clock::{HostWork, Issue, Pointwise, Work};
use crate::tape::{Backward, Prim, Tape, Tensor};
use crate::tensor::{DType, Layout, Shape};

use super::work::pointwise;

impl Tape {
    /// `[batch, tokens, heads · dim]` seen as `[batch, tokens, heads, dim]`: a view.
    pub fn split_last(&mut self, x: &Tensor, dim: u64) -> Tensor {
        let [batch, tokens, width] = three(x);
        let rule = Backward::Reshape { input: x.shape };
        let node = self.records(&[x]).then(|| self.begin_node(Prim::Copy, rule, &[x]));
        let out = self.view(x, Shape::new([batch, tokens, width / dim, dim]));
        self.host(HostWork::View);
        self.with_node(out, node)
    }

    /// `[batch, tokens, heads, dim]` as `[batch, tokens, heads · dim]`: `reshape`, which copies what is
    /// not contiguous.
    pub fn merge_last(&mut self, x: &Tensor) -> Tensor {
        let [batch, tokens, heads, dim] = four(x);
        let rule = Backward::Reshape { input: x.shape };
        let node = self.records(&[x]).then(|| self.begin_node(Prim::Copy, rule, &[x]));
        let out = self.reshaped(x, Shape::new([batch, tokens, heads * dim]));
        self.with_node(out, node)
    }

    /// `x.transpose(1, 2)`: a view.
    pub fn transpose(&mut self, x: &Tensor) -> Tensor {
        let [outer, second, third, inner] = four(x);
        let node =
            self.records(&[x]).then(|| self.begin_node(Prim::Copy, Backward::Transpose, &[x]));
        let out = self.view(x, Shape::new([outer, third, second, inner]));
        self.host(HostWork::View);
        let out = self.with_node(out, node);
        Tensor { layout: x.layout.transposed(), ..out }
    }

    /// `x.reshape(shape)` outside autograd: a view where the merged dimensions are adjacent, else a
    /// contiguous copy.
    pub(super) fn reshaped(&mut self, x: &Tensor, shape: Shape) -> Tensor {
        // Between four and three dimensions the outer two are merged; one of them being 1 is enough.
        let folds = shape == x.shape && x.shape.sizes()[..2].contains(&1);
        // Swapping a dimension of one with its neighbour leaves the memory's order as it is.
        let sizes = x.shape.sizes();
        let alike = x.layout == Layout::Transposed && sizes.len() == 4 && sizes[1..3].contains(&1);
        let single = shape != x.shape && matches!(sizes, [_, _, 1, _]);
        let is_view = folds || alike || single || x.layout.merges();
        if is_view { self.view(x, shape) } else { self.copy(x, shape) }
    }

    /// Work of the host alone.
    pub fn host(&mut self, kind: HostWork) {
        self.run(Prim::View, Work::host(kind, Issue::Python));
    }

    /// A contiguous copy with another shape.
    pub(super) fn copy(&mut self, x: &Tensor, shape: Shape) -> Tensor {
        let out = self.empty(shape, x.dtype, Prim::Copy);
        self.run(Prim::Copy, pointwise(Pointwise::Strided, x.dtype, 2 * out.bytes()));
        out
    }

    /// `x.expand(shape)` of integers without gradient: the same memory seen as more.
    pub fn expand(&mut self, x: &Tensor, shape: Shape) -> Tensor {
        self.host(HostWork::View);
        let layout = if shape == x.shape { x.layout } else { Layout::Strided };
        Tensor { shape, layout, view: true, ..self.share(x) }
    }

    /// `x.expand(shape)` of a parameter.
    pub fn repeated(&mut self, x: &Tensor, shape: Shape) -> Tensor {
        let rule = Backward::SumToInput { input: x.shape };
        let node = self.records(&[x]).then(|| self.begin_node(Prim::Copy, rule, &[x]));
        let out = self.expand(x, shape);
        self.with_node(out, node)
    }

    /// `cat((a, b), dim=1)` of `[batch, tokens, width]`, in the wider dtype.
    pub fn cat_tokens(&mut self, a: &Tensor, b: &Tensor) -> Tensor {
        let node = self.records(&[a, b]).then(|| {
            let (inputs, dtypes) = ([a.shape, b.shape], [a.dtype, b.dtype]);
            self.begin_node(Prim::Cat, Backward::CatTokens { inputs, dtypes }, &[a, b])
        });
        let ([batch, first, width], [_, second, _]) = (three(a), three(b));
        let shape = Shape::new([batch, first + second, width]);
        let out = self.empty(shape, a.dtype.promote(b.dtype), Prim::Cat);
        self.run(Prim::Cat, pointwise(Pointwise::Strided, out.dtype, 2 * out.bytes()));
        self.with_node(out, node)
    }

    /// `x[:, 0, :]`: a view.
    pub fn first_token(&mut self, x: &Tensor) -> Tensor {
        let [batch, _, width] = three(x);
        let rule = Backward::Slice { input: x.shape };
        let node = self.records(&[x]).then(|| self.begin_node(Prim::Slice, rule, &[x]));
        self.host(HostWork::View);
        let out = self.part(x, Shape::new([batch, width]));
        let out = Tensor { layout: Layout::Strided, ..out };
        self.with_node(out, node)
    }

    /// `x.view(shape)` of a contiguous tensor.
    pub fn seen_as(&mut self, x: &Tensor, shape: Shape) -> Tensor {
        let rule = Backward::Reshape { input: x.shape };
        let node = self.records(&[x]).then(|| self.begin_node(Prim::Copy, rule, &[x]));
        let out = self.view(x, shape);
        self.host(HostWork::View);
        self.with_node(out, node)
    }

    /// `x[..., a..b]`: a view of part of the last dimension.
    pub fn slice_last(&mut self, x: &Tensor, size: u64) -> Tensor {
        let rule = Backward::Slice { input: x.shape };
        let node = self.records(&[x]).then(|| self.begin_node(Prim::Slice, rule, &[x]));
        self.host(HostWork::View);
        let mut out = self.share(x);
        out.shape = x.shape.with_last(size);
        out.layout = Layout::Strided;
        out.view = true;
        self.with_node(out, node)
    }

    /// `x[..., :size]`: as [`Self::slice_last`]; all of it is the tensor itself under another handle
    /// (`applySlice` and `alias` in `torch/csrc/autograd/python_variable_indexing.cpp`).
    pub fn leading_part(&mut self, x: &Tensor, size: u64) -> Tensor {
        if size < x.shape.last() {
            return self.slice_last(x, size);
        }
        let node = self.records(&[x]).then(|| self.begin_node(Prim::View, Backward::Pass, &[x]));
        self.host(HostWork::View);
        let out = self.view(x, x.shape);
        self.with_node(out, node)
    }

    /// `cat((a, b), dim=-1)`: contiguous, in the wider of two types.
    pub fn cat_last(&mut self, a: &Tensor, b: &Tensor) -> Tensor {
        let sizes = [a.shape.last(), b.shape.last()];
        let rule = Backward::Cat { sizes, dtypes: [a.dtype, b.dtype] };
        let node = self.records(&[a, b]).then(|| self.begin_node(Prim::Cat, rule, &[a, b]));
        let shape = a.shape.with_last(sizes[0] + sizes[1]);
        let out = self.empty(shape, a.dtype.promote(b.dtype), Prim::Cat);
        self.run(Prim::Cat, pointwise(Pointwise::Strided, out.dtype, 2 * out.bytes()));
        self.with_node(out, node)
    }

    /// `base[..., start..end].copy_(source)`: the base is changed in place.
    pub fn copy_into(&mut self, base: Tensor, source: &Tensor) -> Tensor {
        let node = self.records(&[&base, source]).then(|| {
            let (shape, dtype) = (source.shape, source.dtype);
            let rule = Backward::CopySlices { base: base.shape, source: shape, dtype };
            self.begin_node(Prim::Copy, rule, &[&base, source])
        });
        self.run(Prim::Copy, pointwise(Pointwise::Strided, base.dtype, 2 * source.bytes()));
        self.with_node(base, node)
    }

    /// `x.expand(-1, heads, -1, -1)` of one head: a view, whose gradient is summed over the heads.
    pub fn expand_heads(&mut self, x: &Tensor, heads: u64) -> Tensor {
        let [batch, _, tokens, dim] = four(x);
        let rule = Backward::RepeatKv { input: x.shape, groups: heads };
        let node = self.records(&[x]).then(|| self.begin_node(Prim::View, rule, &[x]));
        self.host(HostWork::View);
        let mut out = self.share(x);
        out.shape = Shape::new([batch, heads, tokens, dim]);
        out.layout = Layout::Strided;
        out.view = true;
        self.with_node(out, node)
    }

    /// `x[..., :heads, :]` of `[batch, tokens, more heads, dim]`: a view. Element-wise results of it keep
    /// its order.
    pub fn leading_heads(&mut self, x: &Tensor, heads: u64) -> Tensor {
        let [batch, tokens, _, dim] = four(x);
        let rule = Backward::Slice { input: x.shape };
        let node = self.records(&[x]).then(|| self.begin_node(Prim::Slice, rule, &[x]));
        self.host(HostWork::View);
        let out = self.part(x, Shape::new([batch, tokens, heads, dim]));
        self.with_node(out, node)
    }

    /// `x.permute(2, 0, 1).unsqueeze(0)` of `[tokens, tokens, heads]`: a view.
    pub fn heads_first(&mut self, x: &Tensor) -> Tensor {
        let [queries, keys, heads] = three(x);
        let rule = Backward::HeadsFirst { input: x.shape };
        let node = self.records(&[x]).then(|| self.begin_node(Prim::View, rule, &[x]));
        self.host(HostWork::View);
        let out = self.view(x, Shape::new([1, heads, queries, keys]));
        let layout = if 1 < heads { Layout::HeadsLast } else { x.layout };
        let out = self.with_node(out, node);
        Tensor { layout, ..out }
    }

    /// `x.split(size, dim=-1)` into three views.
    pub fn split3(&mut self, x: &Tensor) -> [Tensor; 3] {
        self.split(x, [x.shape.last() / 3; 3])
    }

    /// `x.split(sizes, dim=-1)`: views of its parts.
    pub fn split<const N: usize>(&mut self, x: &Tensor, sizes: [u64; N]) -> [Tensor; N] {
        let parts = u8::try_from(N).unwrap_or(u8::MAX);
        let rule = Backward::Split { input: x.shape, parts };
        let node = self.records(&[x]).then(|| self.begin_node(Prim::Split, rule, &[x]));
        let source = node.map(|node| self.finish_node(node));
        self.host(HostWork::View);
        let mut output = 0;
        sizes.map(|size| {
            let mut out = self.share(x);
            out.shape = x.shape.with_last(size);
            out.layout = Layout::Strided;
            out.view = true;
            out.source = source.map_or(out.source, |source| source.output(output));
            output += 1;
            out
        })
    }

    /// `x.view(shape)` and `x.reshape(shape)` of contiguous memory, merging or splitting dimensions.
    pub fn reshape(&mut self, x: &Tensor, shape: Shape) -> Tensor {
        let rule = Backward::Reshape { input: x.shape };
        let node = self.records(&[x]).then(|| self.begin_node(Prim::Copy, rule, &[x]));
        let out = self.view(x, shape);
        self.host(HostWork::View);
        self.with_node(out, node)
    }

    /// `repeat_kv`: each key or value head is copied for the query heads of its group.
    ///
    /// Source: `expand` and `reshape` in transformers' `repeat_kv`; one group is no copy, and neither is
    /// one head, which `reshape` sees as many.
    pub fn repeat_kv(&mut self, x: &Tensor, groups: u64) -> Tensor {
        let [_, heads, ..] = four(x);
        if heads == 1 && 1 < groups {
            return self.expand_heads(x, groups);
        }
        self.repeat_interleave(x, groups)
    }

    /// `x.repeat_interleave(groups, -3)`: a copy of each head for each query head of its group.
    pub(super) fn repeat_interleave(&mut self, x: &Tensor, groups: u64) -> Tensor {
        if groups == 1 {
            return self.share(x);
        }
        let [batch, heads, tokens, dim] = four(x);
        let rule = Backward::RepeatKv { input: x.shape, groups };
        let node = self.records(&[x]).then(|| self.begin_node(Prim::RepeatKv, rule, &[x]));
        let out =
            self.empty(Shape::new([batch, heads * groups, tokens, dim]), x.dtype, Prim::RepeatKv);
        self.run(Prim::RepeatKv, pointwise(Pointwise::Strided, x.dtype, x.bytes() + out.bytes()));
        self.with_node(out, node)
    }

    /// A part of this shape along one dimension, as a view: `x[:, i:j]`, `x[i:j]`.
    pub fn slice_of(&mut self, x: &Tensor, shape: Shape) -> Tensor {
        let rule = Backward::Slice { input: x.shape };
        let node = self.records(&[x]).then(|| self.begin_node(Prim::Slice, rule, &[x]));
        let out = self.part(x, shape);
        self.host(HostWork::View);
        self.with_node(out, node)
    }

    /// `x[:, :-1, :].contiguous()`: a slice of the tokens. That of one sequence is contiguous as it
    /// is; more are copied.
    pub fn drop_last_token(&mut self, x: &Tensor) -> Tensor {
        let [batch, tokens, width] = three(x);
        let rule = Backward::Slice { input: x.shape };
        let node = self.records(&[x]).then(|| self.begin_node(Prim::Slice, rule, &[x]));
        let shape = Shape::new([batch, tokens - 1, width]);
        let out = if batch == 1 { self.part(x, shape) } else { self.copy(x, shape) };
        self.with_node(out, node)
    }

    /// `ids[:, 1:].contiguous()` of integers without gradient, by the same rule.
    pub fn drop_first_token(&mut self, ids: &Tensor) -> Tensor {
        let &[batch, tokens] = ids.shape.sizes() else { unreachable!("ids are a matrix") };
        let shape = Shape::new([batch, tokens - 1]);
        if batch == 1 { self.part(ids, shape) } else { self.helper(shape, DType::I64, Prim::Copy) }
    }
}

/// Sizes of a three-dimensional tensor.
pub(super) fn three(x: &Tensor) -> [u64; 3] {
    x.shape.sizes().try_into().expect("the tensor has three dimensions")
}

/// Sizes of a four-dimensional tensor.
pub(super) fn four(x: &Tensor) -> [u64; 4] {
    x.shape.sizes().try_into().expect("the tensor has four dimensions")
}
