//! Assigns rows to columns: balances the load first, then minimises the sum of costs. Pure.

use std::collections::{BTreeMap, VecDeque};

/// Limit of steps (rows squared times columns) for an optimal assignment: 128 GPUs and as many NICs on one NUMA node.
/// Larger tables, which no known machine needs, get a greedy one.
const EXACT: usize = 1 << 21;
/// Cost of one more user of a column: far above the sum of all distances.
const LOAD: i64 = 1 << 32;

/// Chooses one of `columns` for each of `rows`. `cost` is `None` if the row may not use the column. Returns `None` if
/// there are no rows, a row has no allowed column, or a column would have more than `most` rows.
///
/// Independent parts are assigned separately: rows without a common allowed column, direct or through other rows,
/// cannot conflict. The tables stay small, because GPUs share a switch or a NUMA node with few devices.
pub(super) fn assign(
    (rows, columns): (usize, usize),
    cost: impl Fn(usize, usize) -> Option<u8>,
    most: usize,
) -> Option<Vec<usize>> {
    let mut chosen = vec![0; rows];
    for (part_rows, part_columns) in parts(rows, columns, &cost)? {
        let size = (part_rows.len(), part_columns.len());
        let inner = |row: usize, column: usize| cost(part_rows[row], part_columns[column]);
        let steps = size.0.saturating_mul(size.0).saturating_mul(size.1);
        let found = match steps <= EXACT {
            true => optimal_assignment(size, inner, most)?,
            false => greedy_assignment(size, inner, most)?,
        };
        for (row, column) in part_rows.iter().zip(found) {
            chosen[*row] = part_columns[column];
        }
    }
    (!chosen.is_empty()).then_some(chosen)
}

/// Splits rows and columns into connected parts. Returns `None` if a row has no column.
fn parts(
    rows: usize,
    columns: usize,
    cost: impl Fn(usize, usize) -> Option<u8>,
) -> Option<Vec<(Vec<usize>, Vec<usize>)>> {
    // Union-find: each column refers to another column of its part, or to itself if it is the representative.
    let mut above: Vec<usize> = (0..columns).collect();
    let top = |above: &mut Vec<usize>, mut at: usize| {
        while above[at] != at {
            above[at] = above[above[at]];
            at = above[at];
        }
        at
    };
    let mut first = Vec::with_capacity(rows);
    for row in 0..rows {
        let mut allowed = (0..columns).filter(|column| cost(row, *column).is_some());
        let own = allowed.next()?;
        first.push(own);
        for other in allowed {
            let (one, other) = (top(&mut above, own), top(&mut above, other));
            above[other] = one;
        }
    }
    let mut parts: BTreeMap<usize, (Vec<usize>, Vec<usize>)> = BTreeMap::new();
    for (row, column) in first.iter().enumerate() {
        parts.entry(top(&mut above, *column)).or_default().0.push(row);
    }
    for column in 0..columns {
        if let Some((_, members)) = parts.get_mut(&top(&mut above, column)) {
            members.push(column);
        }
    }
    Some(parts.into_values().collect())
}

/// Finds an optimal assignment. Adds rows one by one, each by the cheapest way to move earlier rows (successive
/// shortest paths), so every intermediate result is optimal. Searches paths among columns with a queue (Bellman–Ford).
fn optimal_assignment(
    (rows, columns): (usize, usize),
    cost: impl Fn(usize, usize) -> Option<u8>,
    most: usize,
) -> Option<Vec<usize>> {
    let mut held: Vec<Vec<usize>> = vec![Vec::new(); columns];
    let mut column_of: Vec<usize> = Vec::with_capacity(rows);
    let cost = |row: usize, column: usize| cost(row, column).map(i64::from);
    for row in 0..rows {
        // Minimum cost of adding the new row such that `column` has one row more, and the row that moves there.
        let mut least: Vec<Option<i64>> = (0..columns).map(|column| cost(row, column)).collect();
        let mut mover: Vec<Option<usize>> = vec![None; columns];
        let mut queue: VecDeque<usize> = (0..columns).filter(|at| least[*at].is_some()).collect();
        while let Some(from) = queue.pop_front() {
            let Some(so_far) = least[from] else { continue };
            for moved in &held[from] {
                let freed = so_far - cost(*moved, from).unwrap_or(0);
                for to in 0..columns {
                    let Some(total) = cost(*moved, to).map(|more| freed + more) else { continue };
                    if to != from && least[to].is_none_or(|known| total < known) {
                        (least[to], mover[to]) = (Some(total), Some(*moved));
                        queue.push_back(to);
                    }
                }
            }
        }
        let ends = (0..columns).filter(|column| held[*column].len() < most);
        let load = |column: usize| held[column].len() as i64;
        let ends = ends.filter_map(|column| Some((least[column]? + load(column) * LOAD, column)));
        let (_, mut column) = ends.min()?;
        column_of.push(column);
        while let Some(moved) = mover[column] {
            let from = column_of[moved];
            held[from].retain(|other| *other != moved);
            held[column].push(moved);
            column_of[moved] = column;
            column = from;
        }
        held[column].push(row);
        column_of[row] = column;
    }
    Some(column_of)
}

/// Finds a good assignment in time proportional to the cells. Rows with a near column choose first, each the column
/// with the fewest rows, then the nearest.
fn greedy_assignment(
    (rows, columns): (usize, usize),
    cost: impl Fn(usize, usize) -> Option<u8>,
    most: usize,
) -> Option<Vec<usize>> {
    let nearest = |row: &usize| (0..columns).filter_map(|column| cost(*row, column)).min();
    let mut order: Vec<usize> = (0..rows).collect();
    order.sort_by_cached_key(nearest);
    let mut load = vec![0_usize; columns];
    let mut chosen = vec![0; rows];
    for row in order {
        let open = (0..columns).filter(|column| load[*column] < most);
        let open = open.filter_map(|column| Some((load[column], cost(row, column)?, column)));
        let (_, _, column) = open.min()?;
        load[column] += 1;
        chosen[row] = column;
    }
    Some(chosen)
}

#[cfg(test)]
mod tests {
    use std::cell::Cell;

    use super::*;
    use proptest::prelude::*;

    fn of_table(costs: &[Vec<Option<u8>>], most: usize) -> Option<Vec<usize>> {
        let columns = costs.first().map_or(0, Vec::len);
        assign((costs.len(), columns), |row, column| costs[row][column], most)
    }

    /// Returns the sum of squared loads, then sum of costs: the quantities that [`assign`] minimises.
    fn total_cost(costs: &[Vec<Option<u8>>], chosen: &[usize]) -> Option<(usize, i64)> {
        let mut loads = vec![0_usize; costs[0].len()];
        let mut sum = 0;
        for (row, column) in chosen.iter().enumerate() {
            sum += i64::from(costs[row][*column]?);
            loads[*column] += 1;
        }
        Some((loads.iter().map(|load| load * load).sum(), sum))
    }

    /// Minimum over all assignments, by enumeration.
    fn best_of_all(costs: &[Vec<Option<u8>>]) -> Option<(usize, i64)> {
        let columns = costs[0].len();
        let all = columns.pow(costs.len() as u32);
        let digits = |mut number: usize| {
            let next = |_| {
                let digit = number % columns;
                number /= columns;
                digit
            };
            (0..costs.len()).map(next).collect::<Vec<usize>>()
        };
        (0..all).filter_map(|number| total_cost(costs, &digits(number))).min()
    }

    proptest! {
        #[test]
        fn assignment_is_optimal(
            costs in (1..5_usize, 1..5_usize).prop_flat_map(|(rows, columns)| {
                let cell = prop::option::weighted(0.6, 0..4_u8);
                prop::collection::vec(prop::collection::vec(cell, columns), rows)
            })
        ) {
            let chosen = of_table(&costs, usize::MAX);
            prop_assert_eq!(chosen.and_then(|chosen| total_cost(&costs, &chosen)), best_of_all(&costs));
        }
    }

    #[test]
    fn equal_costs_are_assigned_in_order() {
        let equal = vec![vec![Some(0); 4]; 4];
        assert_eq!(of_table(&equal, 1), Some(vec![0, 1, 2, 3]));
        assert_eq!(of_table(&vec![vec![Some(0); 2]; 4], usize::MAX), Some(vec![0, 1, 0, 1]));
        assert_eq!(of_table(&vec![vec![Some(0); 2]; 4], 1), None);
        assert_eq!(of_table(&[vec![None]], 1), None);
        assert_eq!(of_table(&[], 1), None);
    }

    /// Too large for the optimal search: every row still has a column of its own, and its near one if there is one.
    #[test]
    fn large_table_is_balanced_and_near_pairs_stay_together() {
        let cost = |row: usize, column: usize| Some(u8::from(row + 1 != column));
        let chosen = assign((300, 300), cost, usize::MAX).unwrap();
        assert!(chosen[..299].iter().enumerate().all(|(row, column)| row + 1 == *column));
        assert_eq!(chosen[299], 0);
        assert_eq!(assign((300, 299), cost, 1), None);
    }

    /// Cost evaluations grow with the number of cells and no faster, for any connected parts.
    #[test]
    fn cost_is_evaluated_few_times_per_cell() {
        let looks = |rows: usize, columns: usize, part: usize| {
            let count = Cell::new(0_usize);
            let cost = |row: usize, column: usize| {
                count.set(count.get() + 1);
                (row / part == column / part).then_some(0)
            };
            assert!(assign((rows, columns), cost, usize::MAX).is_some());
            count.get() as f64 / (rows * columns) as f64
        };
        // One part, many small parts, one row, one column.
        for (rows, columns, part) in
            [(1_000, 1_000, 1_000), (1_000, 1_000, 4), (1, 9_999, 9_999), (9_999, 1, 9_999)]
        {
            let each = looks(rows, columns, part);
            assert!(
                each < 4.0,
                "{rows} rows, {columns} columns, parts of {part}: {each} looks at each cell"
            );
        }
    }
}
