//! Geometric values of variable length: path and polygon.

use super::{append_words, malformed, split};
use crate::model::error::Result;

/// Bytes of a point.
const POINT: usize = 16;

/// Appends a path: is it closed, the number of points, the points.
pub fn append_path(contents: &[u8], out: &mut Vec<u8>) -> Result<()> {
    let (count, rest) = split::<4>(contents)?;
    let (closed, rest) = split::<4>(rest)?;
    let (_padding, points) = split::<4>(rest)?;
    out.push(u8::from(closed != [0; 4]));
    append_points(count, points, out)
}

/// Appends a polygon: the number of points, the points. Its bounding box stays here.
pub fn append_polygon(contents: &[u8], out: &mut Vec<u8>) -> Result<()> {
    let (count, rest) = split::<4>(contents)?;
    let (_bounding_box, points) = split::<{ 2 * POINT }>(rest)?;
    append_points(count, points, out)
}

fn append_points(count: [u8; 4], points: &[u8], out: &mut Vec<u8>) -> Result<()> {
    if u32::from_ne_bytes(count) as usize * POINT != points.len() {
        return Err(malformed());
    }
    append_words::<4>(&count, out);
    append_words::<8>(points, out);
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;

    fn words(numbers: &[i32]) -> Vec<u8> {
        numbers.iter().flat_map(|n| n.to_ne_bytes()).collect()
    }

    fn point() -> Vec<u8> {
        [1.5_f64, -2.0]
            .iter()
            .flat_map(|x| x.to_ne_bytes())
            .collect()
    }

    #[test]
    fn points_follow_their_number() {
        let wire = [
            &1_i32.to_be_bytes()[..],
            &1.5_f64.to_be_bytes(),
            &(-2.0_f64).to_be_bytes(),
        ]
        .concat();
        let mut path = Vec::new();
        append_path(&[words(&[1, 1, 0]), point()].concat(), &mut path).unwrap();
        assert_eq!(path, [&[1], &wire[..]].concat());
        let mut polygon = Vec::new();
        append_polygon(&[words(&[1]), vec![9; 32], point()].concat(), &mut polygon).unwrap();
        assert_eq!(polygon, wire);
    }

    #[test]
    fn a_wrong_number_of_points_is_refused() {
        let mut out = Vec::new();
        append_path(&[words(&[2, 1, 0]), point()].concat(), &mut out).unwrap_err();
        append_path(&words(&[-1, 1, 0]), &mut out).unwrap_err();
        append_path(&words(&[0, 1]), &mut out).unwrap_err();
        append_polygon(&words(&[0, 1]), &mut out).unwrap_err();
    }
}
