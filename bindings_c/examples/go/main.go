// SPDX-License-Identifier: Apache-2.0

// Eight prompts in one continuous batch, one goroutine a stream.
//
//	PKG_CONFIG_PATH=PREFIX/lib/pkgconfig go build && ./eight_streams MODEL.gguf
package main

/*
#cgo pkg-config: inflight
#include <inflight/inflight.h>
#include <stdlib.h>
*/
import "C"

import (
	"errors"
	"fmt"
	"os"
	"runtime"
	"strings"
	"sync"
	"unsafe"
)

// call runs f on one system thread, as the text of the last error belongs to the thread.
func call(f func() C.inflight_status_t) (C.inflight_status_t, error) {
	runtime.LockOSThread()
	defer runtime.UnlockOSThread()
	status := f()
	if status >= C.INFLIGHT_ERROR_INVALID_ARGUMENT {
		return status, errors.New(C.GoString(C.inflight_last_error()))
	}
	return status, nil
}

// Engine may be used by any number of goroutines.
type Engine struct{ handle *C.inflight_engine_t }

// Open loads a model.
func Open(model string) (*Engine, error) {
	path := C.CString(model)
	defer C.free(unsafe.Pointer(path))
	params := (*C.inflight_engine_params_t)(C.calloc(1, C.sizeof_inflight_engine_params_t))
	defer C.free(unsafe.Pointer(params))
	engine := &Engine{}
	if _, err := call(func() C.inflight_status_t {
		return C.inflight_params_init(C.INFLIGHT_PARAMS_ENGINE, unsafe.Pointer(params), C.sizeof_inflight_engine_params_t)
	}); err != nil {
		return nil, err
	}
	params.model = path
	_, err := call(func() C.inflight_status_t { return C.inflight_engine_create(params, &engine.handle) })
	return engine, err
}

// Close ends the engine; its streams must have been closed before.
func (engine *Engine) Close() { C.inflight_engine_destroy(engine.handle) }

// Answer streams one answer to `each`, piece by piece.
func (engine *Engine) Answer(prompt string, maxTokens int, each func(text string)) error {
	text := C.CString(prompt)
	defer C.free(unsafe.Pointer(text))
	params := (*C.inflight_request_params_t)(C.calloc(1, C.sizeof_inflight_request_params_t))
	defer C.free(unsafe.Pointer(params))
	if _, err := call(func() C.inflight_status_t {
		return C.inflight_params_init(C.INFLIGHT_PARAMS_REQUEST, unsafe.Pointer(params), C.sizeof_inflight_request_params_t)
	}); err != nil {
		return err
	}
	params.prompt = text
	params.max_tokens = C.int32_t(maxTokens)
	var stream *C.inflight_stream_t
	if _, err := call(func() C.inflight_status_t { return C.inflight_engine_submit(engine.handle, params, &stream) }); err != nil {
		return err
	}
	defer C.inflight_stream_destroy(stream)
	for {
		event := C.inflight_stream_event_t{struct_size: C.sizeof_inflight_stream_event_t}
		status, err := call(func() C.inflight_status_t { return C.inflight_stream_next(stream, -1, &event) })
		if err != nil || status == C.INFLIGHT_END_OF_STREAM {
			return err
		}
		if event.error != nil {
			return errors.New(C.GoString(event.error))
		}
		each(C.GoStringN(event.text, C.int(event.text_length)))
	}
}

var prompts = []string{"Once upon a time", "One day, a little fox", "There was a kind queen", "Lily and Ben went to the park",
	"The old bear was hungry", "In a small house near the sea", "A bird sat in the tree", "Tom had a red ball"}

func run(model string) error {
	engine, err := Open(model)
	if err != nil {
		return err
	}
	defer engine.Close()
	answers := make([]strings.Builder, len(prompts))
	failures := make([]error, len(prompts))
	var all sync.WaitGroup
	for i := range prompts {
		i := i
		all.Add(1)
		go func() {
			defer all.Done()
			failures[i] = engine.Answer(prompts[i], 48, func(text string) { answers[i].WriteString(text) })
		}()
	}
	all.Wait()
	if err := errors.Join(failures...); err != nil {
		return err
	}
	for i, prompt := range prompts {
		fmt.Printf("[%d] %s%s\n", i+1, prompt, answers[i].String())
	}
	return nil
}

func main() {
	if len(os.Args) != 2 {
		fmt.Fprintln(os.Stderr, "usage: eight_streams MODEL.gguf")
		os.Exit(2)
	}
	if err := run(os.Args[1]); err != nil {
		fmt.Fprintln(os.Stderr, "inflight:", err)
		os.Exit(1)
	}
}
