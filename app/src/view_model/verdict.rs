//! The gauge: parts of the device's memory as shares of its width.

use simulator::wire::report::Verdict;

/// Where things stand on a gauge from 0 to 1; the limit is inside when the peak goes beyond it.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(crate) struct Gauge {
    pub peak: f64,
    pub band_start: f64,
    pub band_end: f64,
    pub limit: f64,
}

/// The gauge of a verdict.
pub(crate) fn gauge(verdict: &Verdict) -> Gauge {
    let peak = verdict.device_peak_bytes.as_f64();
    let band = verdict.band_bytes.as_f64();
    let limit = verdict.limit_bytes.as_f64();
    // A little room beyond the larger of the two, when it is not the limit.
    let full = if peak + band <= limit { limit } else { (peak + band) * 1.02 };
    let share = |bytes: f64| if 0.0 < full { (bytes / full).clamp(0.0, 1.0) } else { 0.0 };
    Gauge {
        peak: share(peak),
        band_start: share(peak - band),
        band_end: share(peak + band),
        limit: share(limit),
    }
}

#[cfg(test)]
mod tests {
    use simulator::units::Bytes;
    use simulator::wire::report::{LimitedBy, Outcome, StepKind};
    use simulator::wire::timeline::PhaseKind;

    use super::*;

    fn verdict(peak: u64, band: u64, limit: u64) -> Verdict {
        Verdict {
            stage: None,
            outcome: Outcome::Fits,
            device_peak_bytes: Bytes::from_gib(peak),
            limit_bytes: Bytes::from_gib(limit),
            margin_bytes: 0,
            band_bytes: Bytes::from_gib(band),
            step: StepKind::Steady,
            phase: PhaseKind::Forward,
            limited_by: LimitedBy::Card,
            out_of_memory: None,
        }
    }

    #[test]
    fn what_fits_is_drawn_against_the_limit() {
        let gauge = gauge(&verdict(40, 4, 80));
        assert_eq!(gauge, Gauge { peak: 0.5, band_start: 0.45, band_end: 0.55, limit: 1.0 });
    }

    #[test]
    fn what_does_not_fit_shows_the_limit_inside() {
        let gauge = gauge(&verdict(100, 2, 80));
        assert!(gauge.limit < gauge.band_start);
        assert!(gauge.band_end < 1.0);
    }

    #[test]
    fn nothing_is_no_division_by_zero() {
        let nothing = Gauge { peak: 0.0, band_start: 0.0, band_end: 0.0, limit: 0.0 };
        assert_eq!(gauge(&verdict(0, 0, 0)), nothing);
    }
}
