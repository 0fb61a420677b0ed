//! The nearest of a list of names, for "did you mean".

/// Longer inputs are not compared letter by letter: nobody mistypes a name that long.
const LONGEST: usize = 64;

/// The name nearest to `wanted`, when it is near enough to be a slip: at most a third of its
/// letters differ.
pub(crate) fn nearest<'a>(
    wanted: &str,
    names: impl IntoIterator<Item = &'a str>,
) -> Option<&'a str> {
    let scored = names.into_iter().map(|name| (distance(wanted, name), name));
    let (distance, name) = scored.min_by_key(|(distance, _)| *distance)?;
    (distance * 3 <= wanted.len().max(3)).then_some(name)
}

/// The name that `wanted` misses by one or two letters: surely a slip of the pen.
pub(crate) fn slip<'a>(wanted: &str, names: impl IntoIterator<Item = &'a str>) -> Option<&'a str> {
    let near = nearest(wanted, names)?;
    (6 <= wanted.len() && distance(wanted, near) <= 2).then_some(near)
}

/// Letters to insert, delete, replace or swap with a neighbour to turn `from` into `to`
/// (optimal string alignment distance).
pub(super) fn distance(from: &str, to: &str) -> usize {
    let (from, to): (Vec<char>, Vec<char>) = (from.chars().collect(), to.chars().collect());
    if LONGEST < from.len().max(to.len()) {
        return if from == to { 0 } else { from.len().max(to.len()) };
    }
    let mut before_previous = Vec::new();
    let mut previous: Vec<usize> = (0..=to.len()).collect();
    for row in 1..=from.len() {
        let mut current = Vec::from([row]);
        for column in 1..=to.len() {
            let differs = usize::from(from[row - 1] != to[column - 1]);
            let mut best = (previous[column - 1] + differs)
                .min(previous[column] + 1)
                .min(current[column - 1] + 1);
            let swapped = 1 < row
                && 1 < column
                && from[row - 1] == to[column - 2]
                && from[row - 2] == to[column - 1];
            if swapped {
                best = best.min(before_previous[column - 2] + 1);
            }
            current.push(best);
        }
        before_previous = core::mem::replace(&mut previous, current);
    }
    previous[to.len()]
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn counts_edits_and_swaps() {
        let check = |from, to, edits| assert_eq!(distance(from, to), edits, "{from} → {to}");
        check("", "abc", 3);
        check("seq_len", "seq_len", 0);
        check("seq_len", "seqlen", 1);
        check("sqe_len", "seq_len", 1);
        check("micro_bach", "micro_batch", 1);
        check("kitten", "sitting", 3);
    }

    #[test]
    fn only_slips_have_a_nearest_name() {
        let names = ["micro_batch", "seq_len", "grad_accum"];
        assert_eq!(nearest("microbatch", names), Some("micro_batch"));
        assert_eq!(nearest("sequence_length", names), None);
        assert_eq!(nearest(&"x".repeat(1000), names), None);
    }
}
