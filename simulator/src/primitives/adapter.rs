//! Low-rank adapters: what runs beside a projection that has one.

use crate::tape::{Adapter, ParamId, Tape, Tensor};

impl Tape {
    /// The projection's result with its adapter's added; the result itself where there is none.
    ///
    /// # Source
    ///
    /// `Linear.forward` in peft 0.21 (`tuners/lora/layer.py`), which wraps `nn.Linear` and `Conv1D`
    /// alike: `x` is cast to the adapter's dtype under its own name (`_cast_input_dtype`), then
    /// `result = result + lora_B(lora_A(dropout(x))) * scaling` and `result.to(torch_result_dtype)`.
    pub(super) fn adapted(&mut self, x: &Tensor, result: Tensor, weight: ParamId) -> Tensor {
        let Some(Adapter { lora_a, lora_b, dropout }) = self.param(weight).adapter else {
            return result;
        };
        let dtype = result.dtype;
        let x = self.cast(x, self.param(lora_a).dtype);
        let dropped = self.dropout(&x, dropout);
        let narrow = self.plain_linear(&dropped, lora_a, None);
        self.release(dropped);
        let wide = self.plain_linear(&narrow, lora_b, None);
        self.release(narrow);
        let scaled = self.mul_scalar(&wide);
        self.release(wide);
        let sum = self.add(&result, &scaled);
        self.release(scaled);
        self.release(result);
        let result = self.cast(&sum, dtype);
        self.release(sum);
        self.release(x);
        result
    }
}
