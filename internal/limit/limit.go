// Package limit limits the size of data that is read from others: a broken or hostile server
// may send without end, and data in memory takes several times its size.
package limit

import (
	"bytes"
	"fmt"
	"io"
)

// Error says that something is larger than its limit.
type Error struct {
	Most int64 // the limit in bytes
	Size int64 // declared size in bytes; 0: unknown
}

// Error returns the size, as far as it is known, and the limit.
func (e *Error) Error() string {
	if e.Size > 0 {
		return fmt.Sprintf("it has %s, and at most %s are read", size(e.Size), size(e.Most))
	}
	return fmt.Sprintf("it has more than %s, and no more are read", size(e.Most))
}

// Permanent is true: waiting does not help.
func (e *Error) Permanent() bool { return true }

// size writes a number of bytes, never rounded down.
func size(n int64) string {
	switch {
	case n >= 1<<20:
		return fmt.Sprintf("%d MiB", (n+1<<20-1)>>20)
	case n >= 1<<10:
		return fmt.Sprintf("%d KiB", (n+1<<10-1)>>10)
	}
	return fmt.Sprintf("%d bytes", n)
}

// Reader returns a reader of r that fails with [*Error] once r has more than most bytes. It
// does not read ahead.
func Reader(r io.Reader, most int64) io.Reader { return &reader{from: r, most: most, left: most} }

type reader struct {
	from       io.Reader
	most, left int64
}

func (r *reader) Read(b []byte) (int, error) {
	n, err := r.from.Read(b[:min(int64(len(b)), r.left+1)])
	if int64(n) > r.left {
		n, err = int(r.left), &Error{Most: r.most}
	}
	r.left -= int64(n)
	return n, err
}

// Body limits the body of an answer. If its declared length is larger, it fails at the first
// byte.
func Body(of io.ReadCloser, length, most int64) io.ReadCloser {
	if length > most {
		return body{failedReader{&Error{Most: most, Size: length}}, of}
	}
	return body{Reader(of, most), of}
}

type body struct {
	io.Reader
	io.Closer
}

type failedReader struct{ err error }

func (f failedReader) Read([]byte) (int, error) { return 0, f.err }

// Buffer is a buffer of at most Most bytes. Writing more fails with [*Error].
type Buffer struct {
	Most int64
	buf  bytes.Buffer
}

// Write appends as much of b as fits.
func (w *Buffer) Write(b []byte) (int, error) {
	if left := w.Most - int64(w.buf.Len()); int64(len(b)) > left {
		n, _ := w.buf.Write(b[:left])
		return n, &Error{Most: w.Most}
	}
	return w.buf.Write(b)
}

// Bytes returns what was written.
func (w *Buffer) Bytes() []byte { return w.buf.Bytes() }
