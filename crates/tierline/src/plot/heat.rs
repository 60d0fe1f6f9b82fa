// SPDX-License-Identifier: Apache-2.0
//! A heat map of a trace: accessed memory from bottom to top, time from left to right.

use std::io::Read;

use anyhow::{Result, anyhow};
use plotters::prelude::*;
use tierline_trace::survey::Survey;
use tierline_trace::{Block, Reader};

const SIZE: (u32, u32) = (900, 520);
const COLUMNS: usize = 200;
const ROWS: usize = 120;

/// The picture as SVG. Memory that is never accessed is left out, to show more detail of the rest.
pub fn picture(survey: &Survey, trace: impl Read, title: &str) -> Result<String> {
    let heat = HeatMap::of(survey, trace)?;
    let mut text = String::new();
    heat.draw(survey, title, &mut text).map_err(|error| anyhow!("{title}: {error}"))?;
    Ok(text)
}

/// Lines read and written, by interval of time and of accessed memory.
struct HeatMap(Vec<[f64; ROWS]>);

impl HeatMap {
    fn of(survey: &Survey, trace: impl Read) -> Result<Self> {
        let columns = usize::try_from(survey.epochs).unwrap_or(COLUMNS).clamp(1, COLUMNS);
        let mut cells = vec![[0.0; ROWS]; columns];
        let mut reader = Reader::new(trace)?;
        let (mut epoch, mut now) = (0u64, 0u64);
        let mut column = 0;
        // The survey has reported errors of the trace.
        while let Ok(Some(block)) = reader.next() {
            match block {
                Block::Epoch(head) => {
                    column = match survey.ns {
                        0 => part(epoch, survey.epochs, columns),
                        all => part(now, all, columns),
                    };
                    (epoch, now) = (epoch + 1, now.saturating_add(head.ns));
                }
                Block::Pages { space, records } => {
                    for record in records {
                        let Some(page) = survey.pages.index(space, record.page) else { continue };
                        let row = part(page.into(), survey.pages.len(), ROWS);
                        let lines = f64::from(record.reads) + f64::from(record.writes);
                        cells[column][row] += lines;
                    }
                }
            }
        }
        Ok(Self(cells))
    }

    fn draw(
        &self,
        survey: &Survey,
        title: &str,
        text: &mut String,
    ) -> Result<(), Box<dyn std::error::Error>> {
        let most = self.0.iter().flatten().copied().fold(0.0, f64::max);
        if most == 0.0 {
            return Err("there is nothing to draw".into());
        }
        let root = SVGBackend::with_string(text, SIZE).into_drawing_area();
        root.fill(&WHITE)?;
        let (seconds, label) = match survey.ns {
            0 => (to_f64(survey.epochs), "epochs"),
            ns => (to_f64(ns) * 1e-9, "s"),
        };
        let mib = to_f64(survey.pages.len() << survey.header.page_bits) / f64::from(1 << 20);
        let mut area = ChartBuilder::on(&root)
            .caption(title, ("sans-serif", 18))
            .margin(10)
            .x_label_area_size(40)
            .y_label_area_size(64)
            .build_cartesian_2d(0.0..seconds, 0.0..mib)?;
        area.configure_mesh()
            .disable_mesh()
            .x_desc(label)
            .y_desc("MiB of accessed memory, by address")
            .draw()?;
        let width = seconds / to_f64(self.0.len() as u64);
        let height = mib / to_f64(ROWS as u64);
        let cells = (0..).zip(&self.0).flat_map(|(column, cells)| {
            (0..).zip(cells).filter(|(_, lines)| **lines > 0.0).map(move |(row, lines)| {
                // Logarithmic: a hundredth of the hottest is in the middle of the scale.
                let heat = (1.0 + (lines / most).ln() / 1e4_f64.ln()).clamp(0.0, 1.0);
                let (x, y) = (to_f64(column) * width, to_f64(row) * height);
                Rectangle::new([(x, y), (x + width, y + height)], colour(heat).filled())
            })
        });
        area.draw_series(cells)?;
        root.present()?;
        Ok(())
    }
}

/// From light grey over orange to black, always darker: it can be read without colours.
fn colour(heat: f64) -> RGBColor {
    const SCALE: [(f64, f64, f64); 4] =
        [(238.0, 232.0, 224.0), (245.0, 170.0, 60.0), (180.0, 50.0, 20.0), (20.0, 8.0, 8.0)];
    let at = heat * 3.0;
    let low = usize::from(at >= 1.0) + usize::from(at >= 2.0);
    let part = at - to_f64(low as u64);
    let ((r, g, b), (s, h, c)) = (SCALE[low], SCALE[low + 1]);
    #[expect(
        clippy::cast_possible_truncation,
        clippy::cast_sign_loss,
        reason = "between 0 and 255"
    )]
    let mix = |from: f64, to: f64| (from + (to - from) * part) as u8;
    RGBColor(mix(r, s), mix(g, h), mix(b, c))
}

/// Of `parts` equal parts of `all`, the one that contains `at`.
fn part(at: u64, all: u64, parts: usize) -> usize {
    let wide = u128::from(at) * parts as u128 / u128::from(all.max(1));
    usize::try_from(wide).unwrap_or(parts).min(parts - 1)
}

#[expect(clippy::cast_precision_loss, reason = "for a picture")]
fn to_f64(n: u64) -> f64 {
    n as f64
}
