//! The host costs put together again, against the 37 operations they were taken from.

use super::check::{median, tables_of_h200};
use super::host::HostClock;
use super::work::{
    AttentionKernel, Gemm, HostWork, Index, Issue, Number, Pass, Pointwise, Reduce, Work, WorkClass,
};
use Issue::{Inner, Node, Python};

fn pointwise(issue: Issue) -> Work {
    Work::elementwise(Pointwise::Binary, Number::F32, 0, issue)
}

fn cast(issue: Issue) -> Work {
    Work::elementwise(Pointwise::Widen, Number::F32, 0, issue)
}

fn dropout(issue: Issue) -> Work {
    Work::elementwise(Pointwise::Dropout, Number::F32, 0, issue)
}

fn reduce(kind: Reduce, issue: Issue) -> Work {
    Work::sized(WorkClass::Reduction { kind, rows: 8, cols: 64 }, Number::F32, 0, issue)
}

fn gather(kind: Index, issue: Issue) -> Work {
    Work::sized(WorkClass::Index(kind), Number::F32, 0, issue)
}

fn product(issue: Issue) -> Work {
    Work::matmul(Gemm::new(8, 64, 64), Pass::Forward, Number::F32, issue)
}

fn view(issue: Issue) -> Work {
    Work::host(HostWork::View, issue)
}

fn module() -> Work {
    Work::host(HostWork::Module, Python)
}

fn attention(backward: bool, issue: Issue) -> Work {
    let class = WorkClass::Attention {
        batch: 1,
        q_len: 8,
        kv_len: 8,
        heads: 1,
        kv_heads: 1,
        head_dim: 64,
        causal: false,
        backward,
        kernel: AttentionKernel::Efficient,
    };
    Work::sized(class, Number::F32, 0, issue)
}

/// An entry's name and the works it is made of, forward and backward.
type Composition = (&'static str, Vec<Work>, Vec<Work>);

fn sum_rows(issue: Issue) -> Work {
    reduce(Reduce::First, issue)
}

/// Backward of a product with a broadcast parameter: two products, a sum, and the addition to the
/// parameter's gradient. The chains repeat one parameter, so every use after the first adds.
fn multiply_backward() -> Vec<Work> {
    vec![pointwise(Node), pointwise(Inner), sum_rows(Inner), pointwise(Inner)]
}

fn linear_backward() -> Vec<Work> {
    vec![product(Node), product(Inner), pointwise(Inner)]
}

fn pointwise_entries() -> Vec<Composition> {
    let call = || vec![pointwise(Python)];
    let node = || vec![pointwise(Node)];
    let further = |count| vec![pointwise(Inner); count];
    vec![
        ("add", call(), vec![view(Node)]),
        ("add_tensor", call(), vec![view(Node), sum_rows(Inner), pointwise(Inner)]),
        ("mul", call(), multiply_backward()),
        ("silu", call(), node()),
        ("gelu", call(), node()),
        ("relu", call(), node()),
        ("pow", call(), [node(), further(2)].concat()),
        ("cast_roundtrip", vec![cast(Python); 2], vec![cast(Node); 2]),
        ("dropout", vec![dropout(Python)], node()),
        ("view", vec![view(Python)], vec![view(Node)]),
        ("transpose_contiguous", vec![view(Python); 2], vec![view(Node); 2]),
        (
            "slice_cat",
            [vec![view(Python); 3], call(), call()].concat(),
            [vec![view(Node)], node(), node(), further(1), node(), further(2)].concat(),
        ),
        (
            "index_select_add",
            [vec![gather(Index::Gather, Python)], call()].concat(),
            vec![view(Node), gather(Index::Scatter, Node), pointwise(Inner)],
        ),
        ("embedding_module", vec![module(), gather(Index::Gather, Python)], vec![]),
    ]
}

fn product_and_reduction_entries() -> Vec<Composition> {
    let norm = |kind| vec![reduce(kind, Node), pointwise(Inner)];
    let of = |kind, issue| vec![reduce(kind, issue)];
    let call = |count| vec![pointwise(Python); count];
    let square_backward = vec![pointwise(Node), pointwise(Inner), pointwise(Inner)];
    let rms_backward = [
        multiply_backward(),
        multiply_backward(),
        square_backward.clone(),
        vec![view(Node), pointwise(Node)],
        square_backward,
    ];
    vec![
        ("linear_module_nobias", vec![module(), product(Python)], linear_backward()),
        (
            "linear_module_bias",
            vec![module(), product(Python)],
            [linear_backward(), vec![sum_rows(Inner), pointwise(Inner)]].concat(),
        ),
        ("F.linear", vec![product(Python)], linear_backward()),
        ("matmul", vec![product(Python)], linear_backward()),
        (
            "mean_keepdim_mul",
            [of(Reduce::Last, Python), call(1)].concat(),
            [multiply_backward(), vec![pointwise(Node)]].concat(),
        ),
        (
            "layer_norm_module",
            [vec![module()], of(Reduce::LayerNorm, Python)].concat(),
            [norm(Reduce::LayerNormBackward), vec![pointwise(Inner)]].concat(),
        ),
        ("F.rms_norm", of(Reduce::RmsNorm, Python), norm(Reduce::RmsNormBackward)),
        ("rms_norm_eager", [call(5), of(Reduce::Last, Python)].concat(), rms_backward.concat()),
        ("softmax", of(Reduce::Softmax, Python), of(Reduce::SoftmaxBackward, Node)),
        (
            "sdpa",
            [vec![view(Python); 4], vec![attention(false, Python)]].concat(),
            [vec![view(Node); 4], vec![attention(true, Node)], vec![pointwise(Inner); 2]].concat(),
        ),
        (
            "batch_norm_module",
            [vec![module()], call(1), of(Reduce::BatchNorm, Python)].concat(),
            vec![],
        ),
    ]
}

#[test]
fn operations_add_up() {
    let host = HostClock::default();
    let cost =
        |works: &[Work]| -> f64 { works.iter().map(|work| host.issue(work).seconds() * 1e6).sum() };
    let measured = tables_of_h200().host_us;
    let mut errors = Vec::new();
    for (name, forward, backward) in [pointwise_entries(), product_and_reduction_entries()].concat()
    {
        let (fw, bw) = measured[name];
        let sums = [(cost(&forward), Some(fw)), (cost(&backward), bw)];
        for (sum, us) in sums {
            let Some(us) = us.filter(|_| sum > 0.0) else { continue };
            println!("{name:24} {sum:6.1} {us:6.1} {:+.2}", sum / us - 1.0);
            errors.push((sum / us - 1.0).abs());
        }
    }
    let median = median(&mut errors);
    println!("median {median:.3} of {}", errors.len());
    assert!(median < 0.12, "{median}");
    assert!(errors.iter().all(|error| *error < 0.35), "{errors:?}");
}
