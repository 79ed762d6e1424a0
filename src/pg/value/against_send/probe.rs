//! Both ways from values to bytes, side by side.

use crate::pg::memory::MemoryContext;
use crate::pg::value::*;

/// Both ways from a value to bytes.
pub struct Probe {
    encoder: Encoder,
    type_oid: Oid,
    send: Oid,
    descriptor: pg_sys::TupleDesc,
}

impl Probe {
    pub fn new(type_oid: Oid) -> Probe {
        let column = Column {
            attnum: 1,
            name: b"v".to_vec(),
            type_oid,
            generated: 0,
            typmod: -1,
            collation: Oid::INVALID,
            options: vec![],
        };
        let (mut send, mut is_varlena) = (Oid::INVALID, false);
        // SAFETY: catalog lookups, and a descriptor of one attribute.
        unsafe {
            pg_sys::getTypeBinaryOutputInfo(type_oid, &mut send, &mut is_varlena);
            let descriptor = pg_sys::CreateTemplateTupleDesc(1);
            pg_sys::TupleDescInitEntry(descriptor, 1, c"v".as_ptr(), type_oid, -1, 0);
            Probe {
                encoder: Encoder::binary(&column, 18_00_00).expect("a type of the list"),
                type_oid,
                send,
                descriptor,
            }
        }
    }

    fn encoded(&self, value: Datum) -> Vec<u8> {
        let row = Row {
            values: &value,
            nulls: &false,
            count: 1,
            slot: PhantomData,
        };
        let mut out = b"before".to_vec();
        assert!(self.encoder.append(&row, &mut out).expect("a wire form"));
        out.split_off(b"before".len())
    }

    /// The value as it is, and as a tuple holds it, that is with a short header where possible.
    pub fn check(&self, mut value: Datum) {
        let scratch = scratch();
        let entered = scratch.enter();
        // SAFETY: the value has the type of the descriptor's only attribute.
        let (sent, packed) = unsafe {
            let sent = pg_sys::OidSendFunctionCall(self.send, value);
            let mut is_null = false;
            let tuple = pg_sys::heap_form_tuple(self.descriptor, &raw mut value, &raw mut is_null);
            let mut packed = Datum::null();
            pg_sys::heap_deform_tuple(tuple, self.descriptor, &mut packed, &mut is_null);
            (contents(Datum::from(sent)), packed)
        };
        for value in [value, packed] {
            let encoded = self.encoded(value);
            if encoded != sent {
                let place = encoded.iter().zip(sent).take_while(|(a, b)| a == b).count();
                let tail = |bytes: &[u8]| {
                    let near = place.saturating_sub(20)..bytes.len().min(place + 60);
                    String::from_utf8_lossy(&bytes[near]).into_owned()
                };
                panic!(
                    "{:?} differs at byte {place}: {:?}, not {:?}; {encoded:.60?}, {sent:.60?}",
                    self.encoder,
                    tail(&encoded),
                    tail(sent)
                );
            }
        }
        drop(entered);
        scratch.delete();
    }

    /// Calls `look` with the value that has this text form.
    pub fn with_input(&self, text: &str, look: impl FnOnce(&Probe, Datum)) {
        let text = CString::new(text).expect("no NUL");
        let (mut input, mut io_param) = (Oid::INVALID, Oid::INVALID);
        let inputs = scratch();
        let entered = inputs.enter();
        // SAFETY: the text is read by the type's own input function.
        let value = unsafe {
            pg_sys::getTypeInputInfo(self.type_oid, &mut input, &mut io_param);
            pg_sys::OidInputFunctionCall(input, text.as_ptr().cast_mut(), io_param, -1)
        };
        look(self, value);
        drop(entered);
        inputs.delete();
    }

    pub fn check_text(&self, text: &str) {
        self.with_input(text, |probe, value| probe.check(value));
    }
}

/// Memory for values, or for what is made from them.
fn scratch() -> MemoryContext {
    // SAFETY: the current context outlives what a test enters inside it.
    unsafe { MemoryContext::child_of(pg_sys::CurrentMemoryContext, c"probe") }
}

pub fn check_texts(type_oid: Oid, texts: &[&str]) {
    let probe = Probe::new(type_oid);
    texts.iter().for_each(|text| probe.check_text(text));
}

/// How a varlena is kept, by its first byte.
#[derive(Debug, PartialEq)]
pub enum Header {
    Long,
    Compressed,
    Short,
    Toast,
}

/// Checks all values of a query's answer; the headers of the varlenas among them.
pub fn check_query(sql: &str) -> Vec<Header> {
    let sql = CString::new(sql).expect("no NUL");
    let mut headers = Vec::new();
    // SAFETY: the answer lives until SPI_finish; values have the types of its descriptor.
    unsafe {
        assert_eq!(pg_sys::SPI_connect(), pg_sys::SPI_OK_CONNECT as i32);
        let done = pg_sys::SPI_execute(sql.as_ptr(), false, 0);
        assert_eq!(done, pg_sys::SPI_OK_SELECT as i32, "{sql:?}");
        let (table, rows) = (pg_sys::SPI_tuptable, pg_sys::SPI_processed as usize);
        assert!(rows > 0);
        let descriptor = (*table).tupdesc;
        for attnum in 1..=(*descriptor).natts {
            let probe = Probe::new(pg_sys::SPI_gettypeid(descriptor, attnum));
            let is_varlena = pg_sys::get_typlen(probe.type_oid) == -1;
            for row in 0..rows {
                let tuple = (*table).vals.add(row).read();
                let mut is_null = false;
                let value = pg_sys::SPI_getbinval(tuple, descriptor, attnum, &mut is_null);
                if is_null {
                    continue;
                }
                probe.check(value);
                if is_varlena {
                    headers.push(match value.cast_mut_ptr::<u8>().read() {
                        0x01 => Header::Toast,
                        first if first & 0x01 != 0 => Header::Short,
                        first if first & 0x02 != 0 => Header::Compressed,
                        _ => Header::Long,
                    });
                }
            }
        }
        pg_sys::SPI_finish();
    }
    headers
}
