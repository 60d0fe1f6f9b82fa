// SPDX-License-Identifier: Apache-2.0
//! Rows of a comparison as Parquet: one column per key of the JSON rows.

use std::io::Write;
use std::path::Path;
use std::sync::Arc;

use anyhow::{Context, Result};
use parquet::data_type::{ByteArray, ByteArrayType, DoubleType, Int64Type};
use parquet::file::writer::{SerializedColumnWriter, SerializedFileWriter};
use parquet::schema::parser::parse_message_type;
use tierline_model::compare::ComparedRun;

use crate::output::emptied;

/// A column; `None` is written as null.
enum Column {
    Text(fn(&ComparedRun) -> Option<&str>),
    Count(fn(&ComparedRun) -> u64),
    Number(fn(&ComparedRun) -> Option<f64>),
}

use Column::{Count, Number, Text};

const COLUMNS: [(&str, Column); 19] = [
    ("machine", Text(|row| Some(&row.machine))),
    ("workload", Text(|row| Some(&row.workload))),
    ("ratio", Text(|row| row.ratio.as_deref())),
    ("policy", Text(|row| Some(&row.policy))),
    ("seed", Count(|row| row.seed)),
    ("throughput_per_second", Number(|row| Some(row.throughput))),
    ("unit", Text(|row| Some(&row.unit))),
    ("fast_share", Number(|row| Some(row.fast_share))),
    ("mean_latency_ns", Number(|row| Some(row.mean_latency_ns))),
    ("migrated_bytes", Count(|row| row.migrated_bytes)),
    ("ping_pong_pages", Count(|row| row.ping_pong_pages)),
    ("recovery_seconds", Number(|row| row.recovery_seconds)),
    ("relative_to_best", Number(|row| Some(row.relative_to_best))),
    ("progress", Number(|row| Some(row.progress))),
    ("share_of_gain", Number(|row| row.share_of_gain)),
    ("weighted_speedup", Number(|row| Some(row.weighted_speedup))),
    ("worst_slowdown", Number(|row| row.worst_slowdown)),
    ("fingerprint", Text(|row| Some(&row.fingerprint))),
    ("command", Text(|row| Some(&row.command))),
];

/// Writes rows to a file.
pub fn write(file: &Path, rows: &[ComparedRun]) -> Result<()> {
    let to = emptied(file)?;
    write_to(to, rows).with_context(|| format!("cannot write {}", file.display()))
}

fn write_to(to: impl Write + Send, rows: &[ComparedRun]) -> Result<()> {
    let schema = Arc::new(parse_message_type(&schema())?);
    let mut writer = SerializedFileWriter::new(to, schema, Arc::default())?;
    let mut group = writer.next_row_group()?;
    for (_, column) in &COLUMNS {
        let Some(mut to) = group.next_column()? else { break };
        fill(&mut to, column, rows)?;
        to.close()?;
    }
    group.close()?;
    writer.close()?;
    Ok(())
}

fn schema() -> String {
    let columns = COLUMNS.iter().map(|(name, column)| match column {
        Text(_) => format!("OPTIONAL BYTE_ARRAY {name} (UTF8);"),
        Count(_) => format!("OPTIONAL INT64 {name} (INTEGER(64,false));"),
        Number(_) => format!("OPTIONAL DOUBLE {name};"),
    });
    format!("message runs {{ {} }}", columns.collect::<Vec<_>>().join(" "))
}

fn fill(to: &mut SerializedColumnWriter<'_>, column: &Column, rows: &[ComparedRun]) -> Result<()> {
    match column {
        Text(of) => {
            let cells = rows.iter().map(|row| of(row).map(ByteArray::from)).collect::<Vec<_>>();
            let (levels, values) = split(cells);
            to.typed::<ByteArrayType>().write_batch(&values, Some(&levels), None)?;
        }
        Count(of) => {
            let (levels, values) = split(rows.iter().map(|row| Some(of(row).cast_signed())));
            to.typed::<Int64Type>().write_batch(&values, Some(&levels), None)?;
        }
        Number(of) => {
            let (levels, values) = split(rows.iter().map(of));
            to.typed::<DoubleType>().write_batch(&values, Some(&levels), None)?;
        }
    }
    Ok(())
}

/// Whether each cell has a value, and the existing values.
fn split<T>(cells: impl IntoIterator<Item = Option<T>>) -> (Vec<i16>, Vec<T>) {
    let cells: Vec<Option<T>> = cells.into_iter().collect();
    let levels = cells.iter().map(|cell| i16::from(cell.is_some())).collect();
    (levels, cells.into_iter().flatten().collect())
}

#[cfg(test)]
mod tests {
    use super::*;
    use parquet::file::reader::{FileReader, SerializedFileReader};
    use parquet::record::RowAccessor;

    fn entry(ratio: Option<&str>, recovery_seconds: Option<f64>) -> ComparedRun {
        ComparedRun {
            machine: "colloid-icx".into(),
            workload: "gups".into(),
            ratio: ratio.map(Into::into),
            policy: "hold".into(),
            seed: u64::MAX,
            throughput: 1.5e9,
            unit: "updates/s".into(),
            fast_share: 0.25,
            mean_latency_ns: 101.5,
            migrated_bytes: 1 << 40,
            ping_pong_pages: 3,
            recovery_seconds,
            relative_to_best: 1.0,
            progress: 1.5,
            share_of_gain: Some(0.5),
            weighted_speedup: 1.5,
            worst_slowdown: None,
            fingerprint: "0f".into(),
            command: "tierline sim".into(),
        }
    }

    #[test]
    fn written_rows_are_read_back_including_nulls() {
        let rows = [entry(Some("1:2"), None), entry(None, Some(7.5))];
        let file = tempfile::NamedTempFile::new().unwrap();
        write(file.path(), &rows).unwrap();
        let reader = SerializedFileReader::new(std::fs::File::open(file.path()).unwrap()).unwrap();
        let read: Vec<_> = reader.get_row_iter(None).unwrap().map(Result::unwrap).collect();
        assert_eq!(read.len(), 2);
        assert_eq!(read[0].get_string(2).unwrap(), "1:2");
        assert!(read[1].get_string(2).is_err() && read[0].get_double(11).is_err());
        assert!((read[1].get_double(11).unwrap() - 7.5).abs() < 1e-12);
        assert_eq!(read[0].get_ulong(4).unwrap(), u64::MAX);
        assert_eq!(read[1].get_ulong(9).unwrap(), 1 << 40);
        assert_eq!(read[1].get_string(3).unwrap(), "hold");
    }

    #[test]
    fn columns_are_the_keys_of_json() {
        let json = serde_json::to_value(entry(None, None)).unwrap();
        let mut keys: Vec<&str> = json.as_object().unwrap().keys().map(String::as_str).collect();
        let mut columns: Vec<&str> = COLUMNS.iter().map(|(name, _)| *name).collect();
        keys.sort_unstable();
        columns.sort_unstable();
        assert_eq!(keys, columns);
    }
}
