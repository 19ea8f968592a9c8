// SPDX-License-Identifier: Apache-2.0
//! Eight prompts in one continuous batch, one thread a stream; no crates.
//!   rustc --edition 2021 eight_streams.rs -L LIBRARY_FOLDER && LD_LIBRARY_PATH=LIBRARY_FOLDER ./eight_streams MODEL.gguf
use std::ffi::{c_char, c_void, CStr, CString};
use std::io::Write;

// The beginnings of the structs in inflight.h: inflight_params_init() sets all the rest to the defaults.
#[repr(C)]
struct EngineParams {
    struct_size: u32,
    reserved: u32,
    model: *const c_char,
    rest: [u64; 100],
}

#[repr(C)]
struct RequestParams {
    struct_size: u32,
    max_tokens: i32,
    prompt: *const c_char,
    prompt_length: usize,
    rest: [u64; 100],
}

#[repr(C)]
struct StreamEvent {
    struct_size: u32,
    finish_reason: i32,
    token_ids: *const i32,
    logprobs: *const f32,
    token_count: usize,
    text: *const u8,
    text_length: usize,
    error: *const c_char,
    prompt_token_count: i32,
    cached_token_count: i32,
    output_token_count: i32,
    preemption_count: i32,
    rest: [u64; 100],
}

#[link(name = "inflight")]
extern "C" {
    fn inflight_last_error() -> *const c_char;
    fn inflight_params_init(kind: i32, params: *mut c_void, struct_size: usize) -> i32;
    fn inflight_engine_create(params: *const EngineParams, engine: *mut *mut c_void) -> i32;
    fn inflight_engine_destroy(engine: *mut c_void);
    fn inflight_engine_submit(engine: *mut c_void, params: *const RequestParams, stream: *mut *mut c_void) -> i32;
    fn inflight_stream_next(stream: *mut c_void, timeout_ms: i32, event: *mut StreamEvent) -> i32;
    fn inflight_stream_destroy(stream: *mut c_void);
}

const FIRST_ERROR: i32 = 10;
const END_OF_STREAM: i32 = 2;

fn check(status: i32) -> Result<i32, String> {
    if status < FIRST_ERROR {
        return Ok(status);
    }
    Err(unsafe { CStr::from_ptr(inflight_last_error()) }.to_string_lossy().into_owned())
}

/// A struct with the library's defaults.
fn params<T>(kind: i32) -> Result<T, String> {
    let mut value = std::mem::MaybeUninit::<T>::zeroed();
    unsafe {
        check(inflight_params_init(kind, value.as_mut_ptr().cast(), std::mem::size_of::<T>()))?;
        Ok(value.assume_init())
    }
}

/// May be used by any number of threads.
struct Engine(*mut c_void);
unsafe impl Sync for Engine {}

impl Engine {
    fn open(model: &str) -> Result<Engine, String> {
        let model = CString::new(model).map_err(|error| error.to_string())?;
        let mut options: EngineParams = params(1)?;
        options.model = model.as_ptr();
        let mut engine = std::ptr::null_mut();
        check(unsafe { inflight_engine_create(&options, &mut engine) })?;
        Ok(Engine(engine))
    }

    fn submit(&self, prompt: &str, max_tokens: i32) -> Result<Stream<'_>, String> {
        let mut request: RequestParams = params(2)?;
        request.prompt = prompt.as_ptr().cast();
        request.prompt_length = prompt.len();
        request.max_tokens = max_tokens;
        let mut stream = std::ptr::null_mut();
        check(unsafe { inflight_engine_submit(self.0, &request, &mut stream) })?;
        Ok(Stream(stream, std::marker::PhantomData))
    }
}

impl Drop for Engine {
    fn drop(&mut self) {
        unsafe { inflight_engine_destroy(self.0) }
    }
}

/// Goes before its engine.
struct Stream<'engine>(*mut c_void, std::marker::PhantomData<&'engine Engine>);

impl Iterator for Stream<'_> {
    type Item = Result<String, String>;
    /// The next piece of text, as it comes.
    fn next(&mut self) -> Option<Self::Item> {
        let mut event: StreamEvent = unsafe { std::mem::zeroed() };
        event.struct_size = std::mem::size_of::<StreamEvent>() as u32;
        match check(unsafe { inflight_stream_next(self.0, -1, &mut event) }) {
            Err(error) => Some(Err(error)),
            Ok(END_OF_STREAM) => None,
            Ok(_) if !event.error.is_null() => {
                Some(Err(unsafe { CStr::from_ptr(event.error) }.to_string_lossy().into_owned()))
            }
            Ok(_) => {
                let text = unsafe { std::slice::from_raw_parts(event.text, event.text_length) };
                Some(Ok(String::from_utf8_lossy(text).into_owned()))
            }
        }
    }
}

impl Drop for Stream<'_> {
    fn drop(&mut self) {
        unsafe { inflight_stream_destroy(self.0) }
    }
}

const PROMPTS: [&str; 8] = [
    "Once upon a time", "One day, a little fox", "There was a kind queen", "Lily and Ben went to the park",
    "The old bear was hungry", "In a small house near the sea", "A bird sat in the tree", "Tom had a red ball",
];

fn run(model: &str) -> Result<(), String> {
    let engine = Engine::open(model)?;
    let answers: Vec<Result<String, String>> = std::thread::scope(|scope| {
        let threads: Vec<_> = PROMPTS
            .iter()
            .map(|prompt| scope.spawn(|| engine.submit(prompt, 48)?.collect::<Result<String, String>>()))
            .collect();
        threads.into_iter().map(|thread| thread.join().unwrap()).collect()
    });
    for (index, (prompt, answer)) in PROMPTS.iter().zip(answers).enumerate() {
        println!("[{}] {}{}", index + 1, prompt, answer?);
    }
    std::io::stdout().flush().map_err(|error| error.to_string())
}

fn main() {
    let Some(model) = std::env::args().nth(1) else {
        eprintln!("usage: eight_streams MODEL.gguf");
        std::process::exit(2);
    };
    if let Err(error) = run(&model) {
        eprintln!("inflight: {error}");
        std::process::exit(1);
    }
}
