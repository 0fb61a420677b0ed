//! Words in which torchvision's models are described.

use super::op::{Act, Conv, Excite, Op, Window};

/// A window that keeps the number of pixels at stride 1.
pub(super) const fn same(kernel: u64, stride: u64) -> Window {
    Window { kernel, stride, padding: (kernel - 1) / 2 }
}

/// A window of its own size, without padding.
pub(super) const fn tiles(kernel: u64) -> Window {
    Window { kernel, stride: kernel, padding: 0 }
}

/// `nn.Conv2d(inputs, outputs, …)` in one group.
pub(super) fn conv(name: &str, [inputs, outputs]: [u64; 2], window: Window, bias: bool) -> Op {
    Op::Conv(Conv { name: name.to_owned(), inputs, outputs, window, groups: 1, bias })
}

/// `nn.BatchNorm2d(channels)`.
pub(super) fn norm(name: &str, channels: u64) -> Op {
    Op::BatchNorm(name.to_owned(), channels)
}

/// `Conv2dNormActivation`: a convolution without bias in groups of `inputs / groups` channels, batch
/// norm, and the activation in place.
pub(super) fn conv_norm(
    name: &str,
    [inputs, outputs]: [u64; 2],
    window: Window,
    groups: u64,
    act: Option<Act>,
) -> Op {
    let name_of = |index: u64| format!("{name}.{index}");
    let conv = Conv { name: name_of(0), inputs, outputs, window, groups, bias: false };
    let mut ops = vec![Op::Conv(conv), norm(&name_of(1), outputs)];
    ops.extend(act.map(|act| Op::Act(act, true)));
    Op::Sequential(ops)
}

/// `SqueezeExcitation(channels, squeezed)`.
pub(super) fn excite(
    name: &str,
    [channels, squeezed]: [u64; 2],
    act: (Act, bool),
    gate: Act,
) -> Op {
    let conv = |module: &str, inputs, outputs| Conv {
        name: format!("{name}.{module}"),
        inputs,
        outputs,
        window: tiles(1),
        groups: 1,
        bias: true,
    };
    let convs = [conv("fc1", channels, squeezed), conv("fc2", squeezed, channels)];
    Op::Excite(Excite { convs, act, gate })
}

/// `nn.Linear(inputs, outputs)`.
pub(super) fn linear(name: &str, inputs: u64, outputs: u64) -> Op {
    Op::Linear(name.to_owned(), [inputs, outputs])
}

/// `_make_divisible(numerator / 10, 8)` (`torchvision/models/_utils.py`): the nearest multiple of 8,
/// and never less than nine tenths.
pub(super) const fn make_divisible(tenths: u64) -> u64 {
    let rounded = (tenths + 40) / 80 * 8;
    let rounded = if rounded < 8 { 8 } else { rounded };
    if 100 * rounded < 9 * tenths { rounded + 8 } else { rounded }
}
