//! The result as text: one row a case, then the summary.

use core::fmt::Write as _;

use simulator::accuracy::{Checked, Metric, MetricName, Row, Side, Spreads, Status, Summary};

/// Bytes in a GiB, as a divisor.
const GIB: f64 = 1_073_741_824.0;

/// What is shown of the predicted cases, beside id and family.
const COLUMNS: [(MetricName, &str, f64); 4] = [
    (MetricName::AllocatedPeak, "allocated GiB", GIB),
    (MetricName::ReservedPeak, "reserved GiB", GIB),
    (MetricName::DevicePeak, "device GiB", GIB),
    (MetricName::StepTime, "step ms", 0.001),
];

/// All of it.
pub(super) fn text(rows: &[Row], summary: &Summary, limits: &[Checked]) -> String {
    let mut text = String::new();
    let width = rows.iter().map(|row| row.id.chars().count()).max().unwrap_or(2).clamp(4, 60);
    heading(&mut text, width);
    for row in rows {
        line(&mut text, row, width);
    }
    let Summary { cases, ok, unsupported, invalid, .. } = summary;
    put(
        &mut text,
        format_args!(
            "\n{cases} cases: {ok} predicted, {unsupported} unsupported, {invalid} invalid"
        ),
    );
    if 0 < *ok {
        put(
            &mut text,
            format_args!(
                "\n{:<16} {:<20} {:>5} {:>9} {:>9} {:>9}  worst case",
                "family", "|error| % of", "cases", "median", "p95", "worst"
            ),
        );
        for (family, spreads) in &summary.families {
            spread_lines(&mut text, family, spreads);
        }
        if summary.families.len() != 1 {
            spread_lines(&mut text, "all", &summary.overall);
        }
    }
    for checked in limits {
        limit_line(&mut text, checked);
    }
    text
}

fn heading(text: &mut String, width: usize) {
    let columns = COLUMNS.map(|(_, title, _)| format!(" {title:>29}")).concat();
    let (matched, gap) = ("matched %", "gap %");
    put(text, format_args!("{:<width$}{columns} {matched:>10} {gap:>8}", "case"));
    let triple = format!(" {:>9} {:>9} {:>9}", "predicted", "measured", "error %");
    put(text, format_args!("{:<width$}{}", "", triple.repeat(COLUMNS.len())));
}

fn line(text: &mut String, row: &Row, width: usize) {
    if row.status != Status::Ok {
        let reason = row.reason.as_deref().unwrap_or("").replace('\n', "; ");
        put(text, format_args!("{:<width$} {}: {reason}", row.id, row.status.word()));
        return;
    }
    let mut columns = String::new();
    for (name, _, unit) in COLUMNS {
        columns.push_str(&triple(row.metrics.get(&name), unit));
    }
    let alone =
        |name| row.metrics.get(&name).map_or_else(dash, |m: &Metric| format!("{:.2}", m.predicted));
    put(
        text,
        format_args!(
            "{:<width$}{columns} {:>10} {:>8}",
            row.id,
            alone(MetricName::EventsMatchedPct),
            alone(MetricName::CurveGapPct)
        ),
    );
}

fn triple(metric: Option<&Metric>, unit: f64) -> String {
    let scaled = |value: f64| format!("{:.3}", value / unit);
    let (predicted, measured, error) = match metric {
        None => (dash(), dash(), dash()),
        Some(metric) => (
            scaled(metric.predicted),
            metric.measured.map_or_else(dash, scaled),
            metric.error_pct.map_or_else(dash, |error| format!("{error:+.3}")),
        ),
    };
    format!(" {predicted:>9} {measured:>9} {error:>9}")
}

fn dash() -> String {
    "–".to_owned()
}

fn spread_lines(text: &mut String, family: &str, spreads: &Spreads) {
    for (name, spread) in spreads {
        put(
            text,
            format_args!(
                "{family:<16} {:<20} {:>5} {:>9.3} {:>9.3} {:>9.3}  {}",
                name.word(),
                spread.cases,
                spread.median,
                spread.p95,
                spread.worst,
                spread.worst_id
            ),
        );
    }
}

fn limit_line(text: &mut String, checked: &Checked) {
    let limit = &checked.limit;
    let sign = if limit.side == Side::Max { '≤' } else { '≥' };
    let value = checked.value.map_or_else(|| "no case has it".to_owned(), |v| format!("{v:.4}"));
    put(
        text,
        format_args!(
            "{} {} {} {sign} {}: {value}",
            if checked.holds { "holds " } else { "FAILED" },
            limit.metric.word(),
            limit.statistic.word(),
            limit.bound
        ),
    );
}

fn put(text: &mut String, line: core::fmt::Arguments<'_>) {
    // Writing to a string cannot fail.
    if writeln!(text, "{line}").is_err() {
        text.push('\n');
    }
}
