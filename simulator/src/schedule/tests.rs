//! Orders against integer tables, and against what they need.

use super::*;

/// Most forwards of a stage that wait for their backward, by running its orders.
fn in_flight(warmup: u64, total: u64) -> u64 {
    let (mut alive, mut most) = (0, 0);
    for k in 0..total {
        alive += 1;
        most = most.max(alive);
        if warmup <= k {
            alive -= 1;
        }
    }
    most
}

/// Integer tables derived from per-rank orders elsewhere: 1F1B keeps `min(M, P − r)` micro-batches.
#[test]
fn micro_batches_in_flight() {
    for (stages, micro_batches, expect) in
        [(4, 8, vec![4, 3, 2, 1]), (4, 2, vec![2, 2, 2, 1]), (1, 4, vec![1])]
    {
        let most =
            (0..stages).map(|stage| in_flight(warmup(stages, stage, micro_batches), micro_batches));
        assert_eq!(most.collect::<Vec<_>>(), expect, "{stages} stages");
    }
}

#[test]
fn chunks_in_flight() {
    for (stages, chunks, expect) in [
        (4, 2, vec![11, 9, 7, 5]),
        (4, 4, vec![19, 17, 15, 13]),
        (8, 2, vec![23, 21, 19, 17, 15, 13, 11, 9]),
        (8, 4, vec![39, 37, 35, 33, 31, 29, 27, 25]),
    ] {
        let most = (0..stages).map(|stage| {
            let orders = Interleaved::new(stages, stage, chunks, 4 * stages);
            in_flight(orders.warmup, orders.total)
        });
        assert_eq!(most.collect::<Vec<_>>(), expect, "{stages} stages of {chunks} chunks");
    }
}

/// Every chunk runs every micro-batch once in either direction, and never backward before forward.
#[test]
fn orders_are_complete_and_possible() {
    for (stages, stage, chunks, micro_batches) in [(2, 0, 2, 4), (4, 3, 2, 8), (4, 1, 3, 12)] {
        let orders = Interleaved::new(stages, stage, chunks, micro_batches);
        let n = usize::try_from(chunks).unwrap();
        let mut waiting = vec![0_u64; n];
        let mut next = vec![0_u64; n];
        for k in 0..orders.total + orders.warmup {
            if k < orders.total {
                let (micro_batch, chunk) = orders.forward(k);
                assert_eq!(micro_batch, next[chunk], "in order");
                next[chunk] += 1;
                waiting[chunk] += 1;
            }
            if let Some(k) = k.checked_sub(orders.warmup) {
                let chunk = orders.backward(k);
                assert!(0 < waiting[chunk], "a forward comes first");
                waiting[chunk] -= 1;
            }
        }
        assert_eq!(next, vec![micro_batches; n]);
        assert_eq!(waiting, vec![0; n]);
    }
}

/// What arrives is what the forwards and backwards use.
#[test]
fn receives_match_what_is_used() {
    for stage in 0..4 {
        let orders = Interleaved::new(4, stage, 2, 8);
        let mut arrived = [u64::from(stage != 0), 0];
        for k in 0..orders.total {
            let (_, chunk) = orders.forward(k);
            let is_first = stage == 0 && chunk == 0;
            if !is_first {
                assert!(0 < arrived[chunk], "stage {stage}, forward {k}");
                arrived[chunk] -= 1;
            }
            if k + 1 < orders.total
                && let Some(chunk) = orders.receives(k, true)
            {
                arrived[chunk] += 1;
            }
        }
        assert_eq!(arrived, [0, 0]);
    }
}
