//! Shapes of up to four dimensions, and the memory order of attention's tensors.

/// Sizes of a tensor's dimensions, outermost first.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Shape {
    sizes: [u64; 4],
    n_dims: u8,
}

impl Shape {
    /// A shape of the given sizes.
    ///
    /// # Panics
    ///
    /// With more than four dimensions.
    pub fn new<const N: usize>(sizes: [u64; N]) -> Self {
        assert!(N <= 4, "shapes have at most four dimensions");
        let mut shape = Self { sizes: [1; 4], n_dims: 0 };
        for (dim, size) in shape.sizes.iter_mut().zip(sizes) {
            *dim = size;
            shape.n_dims += 1;
        }
        shape
    }

    /// A shape of the given sizes, as many as there are.
    ///
    /// # Panics
    ///
    /// With more than four dimensions.
    pub fn of(sizes: &[u64]) -> Self {
        assert!(sizes.len() <= 4, "shapes have at most four dimensions");
        let mut shape = Self::scalar();
        for (dim, &size) in shape.sizes.iter_mut().zip(sizes) {
            *dim = size;
            shape.n_dims += 1;
        }
        shape
    }

    /// A zero-dimensional tensor.
    pub const fn scalar() -> Self {
        Self { sizes: [1; 4], n_dims: 0 }
    }

    /// The sizes.
    pub fn sizes(&self) -> &[u64] {
        &self.sizes[..usize::from(self.n_dims)]
    }

    /// Number of elements.
    pub const fn elements(&self) -> u64 {
        self.sizes[0] * self.sizes[1] * self.sizes[2] * self.sizes[3]
    }

    /// Size of the innermost dimension; 1 for a scalar.
    pub fn last(&self) -> u64 {
        self.sizes().last().copied().unwrap_or(1)
    }

    /// Elements per innermost row: the product of all but the last size.
    pub fn rows(&self) -> u64 {
        self.elements() / self.last()
    }

    /// The same shape with another innermost size.
    #[must_use]
    pub fn with_last(mut self, size: u64) -> Self {
        self.sizes[usize::from(self.n_dims) - 1] = size;
        self
    }

    /// Whether images of this shape have the same bytes in both orders: they have one channel or one
    /// pixel.
    pub fn order_is_ambiguous(&self) -> bool {
        match *self.sizes() {
            [_, channels, height, width] => channels == 1 || height * width == 1,
            _ => true,
        }
    }

    /// The shape of an operation between two, with broadcasting.
    #[must_use]
    pub fn broadcast(&self, other: &Self) -> Self {
        let (long, short) = if other.n_dims <= self.n_dims { (self, other) } else { (other, self) };
        let mut shape = *long;
        let offset = usize::from(long.n_dims - short.n_dims);
        for (i, &size) in short.sizes().iter().enumerate() {
            let dim = &mut shape.sizes[offset + i];
            *dim = (*dim).max(size);
        }
        shape
    }
}

/// Memory order of a tensor with four dimensions.
///
/// Attention sees `[batch, tokens, heads, dim]` memory as `[batch, heads, tokens, dim]` and back;
/// whether a later `reshape` is a view or a copy depends on it.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Layout {
    /// In the order of its dimensions.
    #[default]
    Contiguous,
    /// The second and third dimension are swapped in memory.
    Transposed,
    /// The third and fourth dimension are swapped in memory: the gradient of a key that was used
    /// transposed. Heads and their elements can still be merged without a copy.
    ColumnMajor,
    /// `[1, heads, tokens, tokens]` with the heads innermost in memory: what was looked up in a table
    /// of heads.
    HeadsLast,
    /// A slice of a wider row, so that rows are not adjacent; transposed or not.
    Strided,
    /// `[images, channels, height, width]` with a pixel's channels adjacent
    /// (`torch.channels_last`).
    ChannelsLast,
    /// `[images, height, width, channels]` with a channel's pixels adjacent.
    ChannelsFirst,
    /// Some of the channels of a tensor that is [`Self::ChannelsLast`].
    SomeChannels,
}

impl Layout {
    /// Whether the outer two or the inner two dimensions of `[batch, heads, tokens, dim]`, or of its
    /// transpose, can be merged by a view.
    pub const fn merges(self) -> bool {
        matches!(self, Self::Contiguous | Self::ColumnMajor)
    }

    /// The layout of an element-wise result (`TensorIterator` keeps dense permutations).
    #[must_use]
    pub const fn of_result(self) -> Self {
        match self {
            Self::Strided => Self::Contiguous,
            Self::SomeChannels => Self::ChannelsLast,
            dense => dense,
        }
    }

    /// The layout of `x.permute(0, 2, 3, 1)`.
    #[must_use]
    pub const fn channels_to_last(self) -> Self {
        match self {
            Self::ChannelsLast => Self::Contiguous,
            Self::Contiguous => Self::ChannelsFirst,
            other => other,
        }
    }

    /// The layout of `x.permute(0, 3, 1, 2)`.
    #[must_use]
    pub const fn channels_to_first(self) -> Self {
        match self {
            Self::ChannelsFirst => Self::Contiguous,
            Self::Contiguous => Self::ChannelsLast,
            other => other,
        }
    }

    /// The layout of `x.transpose(1, 2)`.
    #[must_use]
    pub const fn transposed(self) -> Self {
        match self {
            Self::Contiguous => Self::Transposed,
            Self::Transposed => Self::Contiguous,
            other => other,
        }
    }
}
