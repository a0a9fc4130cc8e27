//! The tables of measurements and targets. The best round counts, because other processes on the core and in its caches
//! can only make a round slower.

/// Nanoseconds per operation, one value per round.
pub(crate) struct Series(pub Vec<f64>);

impl Series {
    fn sorted(&self) -> Vec<f64> {
        let mut all = self.0.clone();
        all.sort_by(f64::total_cmp);
        all
    }

    fn median(&self) -> f64 {
        self.sorted()[self.0.len() / 2]
    }

    fn best(&self) -> f64 {
        self.sorted()[0]
    }
}

pub(crate) struct Report {
    sizes: [usize; 3],
    filter: Option<String>,
    /// A name and a series for each size.
    rows: Vec<(String, Vec<(usize, Series)>)>,
    singles: Vec<(String, Series)>,
    memory: Vec<(&'static str, f64)>,
}

impl Report {
    pub(crate) fn new(sizes: [usize; 3], filter: Option<String>) -> Self {
        Self { sizes, filter, rows: Vec::new(), singles: Vec::new(), memory: Vec::new() }
    }

    pub(crate) fn wants(&self, name: &str) -> bool {
        self.filter.as_ref().is_none_or(|filter| name.contains(filter.as_str()))
    }

    pub(crate) fn add(&mut self, name: String, size: usize, series: Series) {
        eprintln!("{name} at {size}: {:.0} ns (median {:.0})", series.best(), series.median());
        match self.rows.iter_mut().find(|(of, _)| *of == name) {
            Some((_, by_size)) => by_size.push((size, series)),
            None => self.rows.push((name, vec![(size, series)])),
        }
    }

    pub(crate) fn add_single(&mut self, name: String, series: Series) {
        eprintln!("{name}: {:.0} ns (median {:.0})", series.best(), series.median());
        self.singles.push((name, series));
    }

    pub(crate) fn add_memory(&mut self, name: &'static str, bytes: f64) {
        eprintln!("{name}: {bytes:.0} bytes");
        self.memory.push((name, bytes));
    }

    pub(crate) fn print(&self) {
        println!("nanoseconds per operation: best round (median)\n");
        let sizes = self.sizes.map(|size| format!("{size} live items"));
        println!("| operation | {} | last : first |", sizes.join(" | "));
        println!("|---|---:|---:|---:|---:|");
        for (name, by_size) in &self.rows {
            let cells: Vec<_> = by_size.iter().map(|(_, series)| cell(series)).collect();
            let growth = by_size[by_size.len() - 1].1.best() / by_size[0].1.best();
            println!("| {name} | {} | {growth:.2} |", cells.join(" | "));
        }
        for (name, series) in &self.singles {
            println!("| {name} | | | {} | |", cell(series));
        }
        println!("\n| wanted | measured | met |\n|---|---:|---|");
        self.wants_rate("renew, 64 an entry", "renewals", 500_000.0);
        self.wants_rate("claim+release, 64 an entry", "pairs", 200_000.0);
        self.wants_rate("claim+release, request memory full", "pairs", 200_000.0);
        for (name, by_size) in &self.rows {
            if let ([(_, small), _, (_, large)], false) = (by_size.as_slice(), name.contains("tick")) {
                let growth = large.best() / small.best();
                verdict(
                    &format!("{name}: at most 3 × the cost of the smallest size"),
                    &format!("{growth:.2} ×"),
                    growth <= 3.0,
                );
            }
        }
        if let [(_, few), (_, many)] = self.singles.as_slice() {
            let growth = many.best() / few.best();
            let wanted = "next behind a tenth that is claimed: as cheap as with ten items (within a quarter)";
            verdict(wanted, &format!("{growth:.2} ×"), growth <= 1.25);
        }
        for (name, bytes) in self.memory.iter().filter(|(name, _)| name.contains("item")) {
            verdict(&format!("{name}: at most 600 bytes"), &format!("{bytes:.0} bytes"), *bytes <= 600.0);
        }
    }

    /// Checks a rate at the largest size.
    fn wants_rate(&self, row: &str, what: &str, wanted: f64) {
        if let Some((_, by_size)) = self.rows.iter().find(|(name, _)| name == row)
            && let Some((size, series)) = by_size.last()
        {
            let rate = 1e9 / series.best();
            verdict(
                &format!("{row}: {wanted:.0} {what}/s at {size} live items"),
                &format!("{rate:.0}/s"),
                rate >= wanted,
            );
        }
    }
}

fn cell(series: &Series) -> String {
    format!("{:.0} ({:.0})", series.best(), series.median())
}

fn verdict(wanted: &str, measured: &str, is_met: bool) {
    println!("| {wanted} | {measured} | {} |", if is_met { "yes" } else { "**no**" });
}
