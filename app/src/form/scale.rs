//! The stops of a slider: eight to an octave, so that 1 and 100,000 are equally easy to reach.

/// The stops of one slider, ascending.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Scale(Vec<u64>);

impl Scale {
    /// Stops from `first` to `last`, each a multiple of `grain`.
    pub(crate) fn octaves(first: u64, last: u64, grain: u64) -> Self {
        let mut stops = Vec::from([first]);
        let mut octave = first;
        while octave < last {
            for eighth in 1..=8 {
                let stop = (octave + octave * eighth / 8).div_ceil(grain) * grain;
                if stops.last().is_some_and(|top| *top < stop) && stop <= last {
                    stops.push(stop);
                }
            }
            octave *= 2;
        }
        Self(stops)
    }

    /// Evenly spaced stops from 0.
    pub(crate) fn steps(last: u64, step: u64) -> Self {
        Self((0..=last / step).map(|index| index * step).collect())
    }

    /// The highest index.
    pub(crate) const fn last(&self) -> usize {
        self.0.len() - 1
    }

    /// The index of the stop nearest to a value.
    pub(crate) fn index(&self, value: u64) -> usize {
        let at = self.0.partition_point(|stop| *stop < value);
        let below = at.checked_sub(1).map(|index| (value - self.0[index], index));
        let above = self.0.get(at).map(|stop| (stop - value, at));
        below.into_iter().chain(above).min().map_or(0, |(_, index)| index)
    }

    /// The value at an index.
    pub(crate) fn value(&self, index: usize) -> u64 {
        self.0[index.min(self.last())]
    }
}

#[cfg(test)]
mod tests {
    use super::Scale;

    #[test]
    fn octaves_hold_all_powers_of_two() {
        let scale = Scale::octaves(1, 256, 1);
        assert_eq!(scale.value(0), 1);
        assert_eq!(scale.value(scale.last()), 256);
        for power in 0..=8 {
            assert_eq!(scale.value(scale.index(1 << power)), 1 << power);
        }
        assert_eq!((0..8).map(|i| scale.value(i)).collect::<Vec<_>>(), [1, 2, 3, 4, 5, 6, 7, 8]);
    }

    #[test]
    fn values_between_and_beyond_take_the_nearest_stop() {
        let scale = Scale::octaves(128, 131_072, 64);
        assert_eq!(scale.value(scale.index(4097)), 4096);
        assert_eq!(scale.value(scale.index(1)), 128);
        assert_eq!(scale.value(scale.index(u64::MAX)), 131_072);
        assert_eq!(scale.value(usize::MAX), 131_072);
    }

    #[test]
    fn even_steps_start_at_zero() {
        let scale = Scale::steps(10, 4);
        assert_eq!((0..=scale.last()).map(|i| scale.value(i)).collect::<Vec<_>>(), [0, 4, 8]);
    }
}
