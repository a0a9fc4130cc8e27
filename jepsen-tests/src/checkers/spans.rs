//! Spans of time that do not overlap, with the total length before each.

use crate::history::Micros;

#[derive(Clone, Debug, Default)]
pub struct Spans {
    spans: Vec<(Micros, Micros)>,
    before: Vec<Micros>,
}

impl Spans {
    /// Spans that overlap or touch become one.
    #[must_use]
    pub fn new(mut all: Vec<(Micros, Micros)>) -> Self {
        all.retain(|(from, to)| from < to);
        all.sort_unstable();
        let mut spans: Vec<(Micros, Micros)> = Vec::new();
        for (from, to) in all {
            match spans.last_mut() {
                Some(last) if from <= last.1 => last.1 = last.1.max(to),
                _ => spans.push((from, to)),
            }
        }
        let mut total: Micros = 0;
        let before = spans
            .iter()
            .map(|(from, to)| {
                let before = total;
                total = total.saturating_add(to - from);
                before
            })
            .collect();
        Self { spans, before }
    }

    #[must_use]
    pub fn all(&self) -> &[(Micros, Micros)] {
        &self.spans
    }

    /// The total length of spans before a moment.
    fn until(&self, moment: Micros) -> Micros {
        let behind = self.spans.partition_point(|(from, _)| *from < moment);
        let Some(at) = behind.checked_sub(1) else { return 0 };
        self.before[at].saturating_add(moment.min(self.spans[at].1) - self.spans[at].0)
    }

    /// The total length of spans between two moments.
    #[must_use]
    pub fn within(&self, from: Micros, to: Micros) -> Micros {
        self.until(to).saturating_sub(self.until(from))
    }

    /// The moment that is this long before another one on a clock that stops within the spans.
    #[must_use]
    pub fn ago(&self, moment: Micros, by: Micros) -> Micros {
        let mut then = moment.saturating_sub(by);
        loop {
            let earlier = moment.saturating_sub(by).saturating_sub(self.within(then, moment));
            if earlier == then {
                return then;
            }
            then = earlier;
        }
    }

    /// No span overlaps the time between two moments.
    #[must_use]
    pub fn is_free(&self, from: Micros, to: Micros) -> bool {
        let over = self.spans.partition_point(|(_, ended)| *ended <= from);
        self.spans.get(over).is_none_or(|(began, _)| *began >= to)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_clock_that_stops_within_spans_is_behind() {
        let spans = Spans::new(vec![(10, 20), (30, 40)]);
        assert_eq!([spans.ago(9, 4), spans.ago(22, 4), spans.ago(41, 12), spans.ago(35, 5)], [5, 8, 9, 25]);
    }

    #[test]
    fn overlapping_spans_count_once() {
        let spans = Spans::new(vec![(10, 20), (15, 30), (50, 60)]);
        assert_eq!([spans.within(0, 100), spans.within(18, 55), spans.within(30, 50)], [30, 17, 0]);
    }

    #[test]
    fn a_time_is_free_when_no_span_touches_it() {
        let spans = Spans::new(vec![(10, 20), (50, 60)]);
        assert_eq!(
            [spans.is_free(0, 10), spans.is_free(20, 50), spans.is_free(19, 50), spans.is_free(0, 55)],
            [true, true, false, false]
        );
    }
}
