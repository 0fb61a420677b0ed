//! Reading how many tests passed and failed from what a test runner prints.

/// Tests of one stage or of all.
#[derive(Debug, Default, Clone, Copy, PartialEq, Eq)]
pub struct Counts {
    pub passed: u64,
    pub failed: u64,
}

impl Counts {
    /// One check that is no test runner, such as rustfmt.
    pub fn check(passed: bool) -> Self {
        if passed { Self { passed: 1, failed: 0 } } else { Self { passed: 0, failed: 1 } }
    }

    /// Takes in one line of output; lines that say nothing about tests are ignored.
    pub fn read(&mut self, line: &str) {
        if let Some((passed, failed)) = cargo_line(line) {
            self.passed += passed;
            self.failed += failed;
        } else if let Some((word, count)) = node_line(line) {
            match word {
                "pass" => self.passed += count,
                // A cancelled test did not pass, whatever its reason.
                "fail" | "cancelled" => self.failed += count,
                _ => {}
            }
        }
    }
}

impl std::ops::AddAssign for Counts {
    fn add_assign(&mut self, other: Self) {
        self.passed += other.passed;
        self.failed += other.failed;
    }
}

/// `test result: ok. 12 passed; 0 failed; 1 ignored; …`, as Rust's harness prints.
fn cargo_line(line: &str) -> Option<(u64, u64)> {
    let rest = line.trim().strip_prefix("test result:")?;
    let number_before = |word: &str| -> Option<u64> {
        rest.split([';', '.'])
            .map(str::trim)
            .find_map(|part| part.strip_suffix(word).and_then(|number| number.trim().parse().ok()))
    };
    Some((number_before("passed")?, number_before("failed")?))
}

/// `# pass 3` (TAP) or `ℹ pass 3` (spec), as Node's runner prints at its end.
fn node_line(line: &str) -> Option<(&str, u64)> {
    let rest = line.strip_prefix("# ").or_else(|| line.strip_prefix("ℹ "))?;
    let (word, number) = rest.trim().split_once(' ')?;
    Some((word, number.trim().parse().ok()?))
}

#[cfg(test)]
mod tests {
    use super::Counts;

    fn check(output: &str, passed: u64, failed: u64) {
        let mut counts = Counts::default();
        output.lines().for_each(|line| counts.read(line));
        assert_eq!(counts, Counts { passed, failed }, "{output}");
    }

    #[test]
    fn cargo_summaries_add_up() {
        check(
            "test a ... ok\n\
             test result: ok. 12 passed; 0 failed; 1 ignored; 0 measured; 3 filtered out; finished in 0.01s\n\
             test result: FAILED. 3 passed; 2 failed; 0 ignored; 0 measured; 0 filtered out; finished in 1.20s\n",
            15,
            2,
        );
    }

    #[test]
    fn node_summaries_are_read_in_both_formats() {
        check("# tests 4\n# pass 3\n# fail 1\n# cancelled 0\n# duration_ms 12.5\n", 3, 1);
        check("ℹ tests 4\nℹ suites 1\nℹ pass 2\nℹ fail 0\nℹ cancelled 2\n", 2, 2);
    }

    #[test]
    fn other_lines_count_nothing() {
        check("running 3 tests\n# Subtest: pass 7 gates\nthe test result: 4 passed\n", 0, 0);
    }
}
