//! Charts as SVG, all of the same width so that times align vertically.

use super::series::{OUTCOMES, Series};
use super::words::{count, millis};
use crate::history::{History, Micros};
use std::collections::BTreeMap;
use std::fmt::Write as _;

const WIDTH: f64 = 1_000.0;
/// Space to the left of every plot for the axis labels; fits the longest name of a fault.
const LEFT: f64 = 104.0;
const RIGHT: f64 = 12.0;
const LANE: f64 = 18.0;

fn x(series: &Series, at: Micros) -> f64 {
    #[expect(clippy::cast_precision_loss, reason = "pixels")]
    let share = at.min(series.end) as f64 / series.end as f64;
    LEFT + share * (WIDTH - LEFT - RIGHT)
}

fn open(svg: &mut String, height: f64, label: &str) {
    let _ = write!(svg, r#"<svg viewBox="0 0 {WIDTH} {height}" role="img" aria-label="{label}">"#);
}

/// Draws the times of faults and hostile callers as the background.
fn bands(svg: &mut String, series: &Series, history: &History, height: f64) {
    let hostile = history.soak.iter().flat_map(|soak| &soak.phases).filter(|phase| !phase.kinds.is_empty());
    for phase in hostile {
        let (from, to) = (x(series, phase.began), x(series, phase.ended));
        let _ = write!(
            svg,
            r#"<rect class="band" x="{from:.1}" y="0" width="{:.1}" height="{height:.1}"><title>{}</title></rect>"#,
            (to - from - 1.0).max(1.0),
            escape(&phase.name),
        );
    }
    for fault in &history.faults {
        let (from, to) = (x(series, fault.began), x(series, fault.ended.unwrap_or(series.end)));
        let _ = write!(
            svg,
            r#"<rect class="band" x="{from:.1}" y="0" width="{:.1}" height="{height:.1}"><title>{}: {}</title></rect>"#,
            (to - from).max(1.0),
            escape(&fault.kind),
            escape(&fault.what),
        );
    }
}

fn line_y(svg: &mut String, y: f64, label: &str) {
    let _ = write!(
        svg,
        r#"<line class="grid" x1="{LEFT}" x2="{:.1}" y1="{y:.1}" y2="{y:.1}"/><text class="tick" x="{:.1}" y="{:.1}" text-anchor="end">{label}</text>"#,
        WIDTH - RIGHT,
        LEFT - 6.0,
        y + 3.5,
    );
}

/// The seconds below a plot.
fn seconds_axis(svg: &mut String, series: &Series, y: f64) {
    let whole = series.end / 1_000_000;
    let step = [1, 2, 5, 10, 20, 30, 60, 120, 300, 600, 900, 1_800]
        .into_iter()
        .find(|step| whole / step <= 10)
        .unwrap_or(3_600);
    for at in (0..=whole).step_by(usize::try_from(step).unwrap_or(1)) {
        let _ = write!(
            svg,
            r#"<text class="tick" x="{:.1}" y="{y:.1}" text-anchor="middle">{at} s</text>"#,
            x(series, at * 1_000_000),
        );
    }
}

/// The next round number that is not smaller.
#[expect(clippy::cast_precision_loss, reason = "pixels")]
fn round_above(number: u64) -> f64 {
    let mut base = 1_u64;
    while base * 10 < number {
        base *= 10;
    }
    let factor = [1, 2, 4, 5, 8, 10].into_iter().find(|factor| base * factor >= number).unwrap_or(10);
    (base * factor) as f64
}

/// Operations per second by outcome, stacked, with the faults as the background.
#[must_use]
#[expect(clippy::cast_precision_loss, reason = "pixels")]
pub fn outcomes(series: &Series, history: &History) -> String {
    const HEIGHT: f64 = 200.0;
    let per_second = series.part / 1_000_000;
    let highest = series.counts.iter().map(|counts| counts.iter().sum::<u64>() / per_second).max().unwrap_or(0).max(1);
    let top = round_above(highest);
    let y = |value: f64| HEIGHT - value / top * (HEIGHT - 12.0);
    let mut svg = String::new();
    open(&mut svg, HEIGHT + 20.0, "Operations per second by outcome");
    bands(&mut svg, series, history, HEIGHT);
    for part in [0.0, 0.5, 1.0] {
        #[expect(clippy::cast_possible_truncation, clippy::cast_sign_loss, reason = "a figure on an axis")]
        line_y(&mut svg, y(top * part), &count((top * part) as u64));
    }
    let mut below = vec![0.0; series.counts.len()];
    for (outcome, name) in OUTCOMES.iter().enumerate() {
        let mut upper = String::new();
        let mut lower = String::new();
        for (at, counts) in series.counts.iter().enumerate() {
            let from = below[at];
            below[at] += counts[outcome] as f64 / per_second as f64;
            let (left, right) = (x(series, at as u64 * series.part), x(series, (at as u64 + 1) * series.part));
            let _ = write!(upper, "L{left:.1} {0:.1} L{right:.1} {0:.1} ", y(below[at]));
            lower.insert_str(0, &format!("L{right:.1} {0:.1} L{left:.1} {0:.1} ", y(from)));
        }
        let _ = write!(svg, r#"<path class="{name}" d="M{} {}Z"/>"#, upper.trim_start_matches('L'), lower);
    }
    for (at, counts) in series.counts.iter().enumerate() {
        let (left, right) = (x(series, at as u64 * series.part), x(series, (at as u64 + 1) * series.part));
        let each: Vec<_> =
            OUTCOMES.iter().zip(counts).map(|(name, times)| format!("{name} {}", count(*times))).collect();
        let _ = write!(
            svg,
            r#"<rect class="hover" x="{left:.1}" y="0" width="{:.1}" height="{HEIGHT}"><title>{} s: {}</title></rect>"#,
            (right - left).max(0.1),
            at as u64 * per_second,
            each.join(", "),
        );
    }
    seconds_axis(&mut svg, series, HEIGHT + 15.0);
    svg.push_str("</svg>");
    svg
}

/// A lane for the leader, and one for each kind of fault.
#[must_use]
pub fn lanes(series: &Series, history: &History) -> String {
    let mut kinds: BTreeMap<&str, Vec<&crate::history::Fault>> = BTreeMap::new();
    for fault in &history.faults {
        kinds.entry(&fault.kind).or_default().push(fault);
    }
    #[expect(clippy::cast_precision_loss, reason = "pixels")]
    let height = LANE * (kinds.len() as f64 + 1.0) + 22.0;
    let mut svg = String::new();
    open(&mut svg, height, "Leadership and faults");
    let mut leaders = history.leaders.clone();
    leaders.sort_by_key(|leader| leader.at);
    lane_label(&mut svg, 0.0, "leader");
    for (at, leader) in leaders.iter().enumerate() {
        let until = leaders.get(at + 1).map_or(series.end, |next| next.at);
        let (from, to) = (x(series, leader.at), x(series, until));
        let (class, words) = match leader.node {
            Some(node) => (format!("node{}", (node.max(1) - 1) % 5 + 1), format!("node {node}, term {}", leader.term)),
            None => ("nobody".into(), "no leader".into()),
        };
        let _ = write!(
            svg,
            r#"<rect class="{class}" x="{from:.1}" y="2" width="{:.1}" height="{:.1}"><title>{words}, {} s</title></rect>"#,
            (to - from).max(0.5),
            LANE - 4.0,
            leader.at / 1_000_000,
        );
        if let Some(node) = leader.node.filter(|_| to - from > 14.0) {
            let _ = write!(svg, r#"<text class="inside" x="{:.1}" y="{:.1}">{node}</text>"#, from + 4.0, LANE - 5.5);
        }
    }
    let mut y = LANE;
    for (kind, faults) in kinds {
        lane_label(&mut svg, y, kind);
        for fault in faults {
            let (from, to) = (x(series, fault.began), x(series, fault.ended.unwrap_or(series.end)));
            let class = if fault.took_hold { "fault" } else { "missed" };
            let missed = if fault.took_hold { "" } else { " (took no effect)" };
            let _ = write!(
                svg,
                r#"<rect class="{class}" x="{from:.1}" y="{:.1}" width="{:.1}" height="{:.1}"><title>{}{missed}</title></rect>"#,
                y + 3.0,
                (to - from).max(1.5),
                LANE - 6.0,
                escape(&fault.what),
            );
        }
        y += LANE;
    }
    seconds_axis(&mut svg, series, y + 15.0);
    svg.push_str("</svg>");
    svg
}

fn lane_label(svg: &mut String, y: f64, label: &str) {
    let _ = write!(
        svg,
        r#"<text class="tick" x="{:.1}" y="{:.1}" text-anchor="end">{}</text>"#,
        LEFT - 6.0,
        y + LANE / 2.0 + 3.5,
        escape(label),
    );
}

/// The p50 and p99 latency of successful operations, on a logarithmic scale.
#[must_use]
pub fn latency(series: &Series, history: &History) -> String {
    const HEIGHT: f64 = 170.0;
    let most = series.latency.iter().flatten().map(|both| both[1]).fold(1.0_f64, f64::max);
    let (low, high) = (-1.0_f64, most.log10().ceil().max(1.0));
    let y = |value: f64| HEIGHT - (value.max(0.1).log10() - low) / (high - low) * (HEIGHT - 10.0);
    let mut svg = String::new();
    open(&mut svg, HEIGHT + 20.0, "Latency during the faults");
    bands(&mut svg, series, history, HEIGHT);
    let mut ten = low;
    while ten <= high {
        let value = 10_f64.powf(ten);
        let label = if value >= 1_000.0 { format!("{} s", value / 1_000.0) } else { format!("{value} ms") };
        line_y(&mut svg, y(value), &label);
        ten += 1.0;
    }
    for (which, class) in [(1, "most"), (0, "half")] {
        let mut path = String::new();
        let mut is_broken = true;
        for (at, both) in series.latency.iter().enumerate() {
            let Some(both) = both else {
                is_broken = true;
                continue;
            };
            let at = x(series, (at as u64) * series.part + series.part / 2);
            let _ = write!(path, "{}{at:.1} {:.1} ", if is_broken { 'M' } else { 'L' }, y(both[which]));
            is_broken = false;
        }
        let _ = write!(svg, r#"<path class="{class}" d="{path}"/>"#);
    }
    for (at, both) in series.latency.iter().enumerate() {
        let (left, right) = (x(series, at as u64 * series.part), x(series, (at as u64 + 1) * series.part));
        let words = both
            .map_or_else(|| "no successful calls".into(), |[half, most]| format!("p50 {half:.1} ms, p99 {most:.1} ms"));
        let _ = write!(
            svg,
            r#"<rect class="hover" x="{left:.1}" y="0" width="{:.1}" height="{HEIGHT}"><title>{} s: {words}</title></rect>"#,
            (right - left).max(0.1),
            at as u64 * series.part / 1_000_000,
        );
    }
    seconds_axis(&mut svg, series, HEIGHT + 15.0);
    svg.push_str("</svg>");
    svg
}

/// A histogram of measured milliseconds.
#[must_use]
#[expect(clippy::cast_precision_loss, reason = "pixels")]
pub fn distribution(values: &[i64]) -> String {
    const BARS: i64 = 40;
    const HEIGHT: f64 = 110.0;
    let mut sorted = values.to_vec();
    sorted.sort_unstable();
    let (Some(least), Some(most)) = (sorted.first().copied(), sorted.last().copied()) else { return String::new() };
    let width = ((most - least) / BARS + 1).max(1);
    let mut bars = vec![0_u64; usize::try_from((most - least) / width + 1).unwrap_or(1)];
    for value in &sorted {
        bars[usize::try_from((value - least) / width).unwrap_or(0)] += 1;
    }
    let highest = bars.iter().copied().max().unwrap_or(1);
    let top = round_above(highest);
    // At least a few buckets, so that a single value does not fill the chart.
    let each = (WIDTH - LEFT - RIGHT) / bars.len().max(12) as f64;
    let mut svg = String::new();
    open(&mut svg, HEIGHT + 20.0, "Distribution");
    for part in [0.0, 1.0] {
        #[expect(clippy::cast_possible_truncation, clippy::cast_sign_loss, reason = "a figure on an axis")]
        line_y(&mut svg, HEIGHT - part * (HEIGHT - 10.0), &count((top * part) as u64));
    }
    for (at, times) in bars.iter().enumerate() {
        let height = *times as f64 / top * (HEIGHT - 10.0);
        let from = least + width * i64::try_from(at).unwrap_or(0);
        let left = LEFT + each * at as f64;
        if *times > 0 {
            let _ = write!(
                svg,
                r#"<rect class="bar" x="{:.1}" y="{:.1}" width="{:.1}" height="{:.1}"><title>{} to {}: {}</title></rect>"#,
                left + 1.0,
                HEIGHT - height.max(1.5),
                (each - 2.0).max(1.0),
                height.max(1.5),
                millis(from),
                millis(from + width),
                count(*times),
            );
        }
        if at % (bars.len() / 8 + 1) == 0 {
            let _ = write!(svg, r#"<text class="tick" x="{left:.1}" y="{:.1}">{}</text>"#, HEIGHT + 15.0, millis(from));
        }
    }
    svg.push_str("</svg>");
    svg
}

/// Escapes text for the page.
#[must_use]
pub fn escape(text: &str) -> String {
    let mut safe = String::with_capacity(text.len());
    for each in text.chars() {
        match each {
            '&' => safe.push_str("&amp;"),
            '<' => safe.push_str("&lt;"),
            '>' => safe.push_str("&gt;"),
            '"' => safe.push_str("&quot;"),
            each => safe.push(each),
        }
    }
    safe
}
