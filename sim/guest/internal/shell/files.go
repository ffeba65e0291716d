package shell

import (
	"bytes"
	"context"
	"errors"
	"io"
	"io/fs"
	"os"

	"github.com/cps-gpu/homelab/sim/guest/internal/disk"
	"github.com/cps-gpu/homelab/sim/guest/internal/machine"
)

func (s *session) stat(ctx context.Context, name string, follow bool) (fs.FileInfo, error) {
	p := s.procAt(ctx)
	if follow {
		return p.FS.Stat(p.Abs(name))
	}
	return p.FS.Lstat(p.Abs(name))
}

func (s *session) readDir(ctx context.Context, name string) ([]fs.DirEntry, error) {
	p := s.procAt(ctx)
	entries, err := p.FS.ReadDir(p.Abs(name))
	out := make([]fs.DirEntry, len(entries))
	for i, e := range entries {
		out[i] = fs.FileInfoToDirEntry(e)
	}
	return out, err
}

// open is how the shell opens files for redirections.
func (s *session) open(ctx context.Context, name string, flag int, perm fs.FileMode) (io.ReadWriteCloser, error) {
	p := s.procAt(ctx)
	switch name {
	case "/dev/stdout", "/dev/fd/1":
		return stream1{w: p.Stdout}, nil
	case "/dev/stderr", "/dev/fd/2":
		return stream1{w: p.Stderr}, nil
	case "/dev/stdin", "/dev/fd/0":
		return stream1{r: p.Stdin}, nil
	}
	if name == "/dev/kmsg" && flag&os.O_WRONLY != 0 && p.User.UID == 0 { // a line in the kernel's log, see kmsg(4)
		return stream1{w: kernelLog{p.Sys}}, nil
	}
	if flag&(os.O_WRONLY|os.O_RDWR) == 0 {
		data, err := p.FS.ReadFile(p.Abs(name))
		if err != nil {
			return nil, s.openError(name, err)
		}
		return stream1{r: bytes.NewReader(data)}, nil
	}
	at, err := p.FS.Open(p.Abs(name), 0o666, flag&os.O_TRUNC != 0)
	if err != nil {
		return nil, s.openError(name, err)
	}
	return stream1{w: p.FS.Writer(at)}, nil
}

// kernelLog takes each write as a message.
type kernelLog struct{ sys *machine.System }

func (k kernelLog) Write(p []byte) (int, error) {
	k.sys.Kmsg("%s", bytes.TrimSpace(p))
	return len(p), nil
}

// openError is an error that the interpreter prints as its own shell's.
func (s *session) openError(name string, err error) error {
	return &fs.PathError{Op: s.p.Shell + ": line 1", Path: name, Err: errors.New(disk.Strerror(err))}
}

// stream1 is a file that is open for one thing.
type stream1 struct {
	r io.Reader
	w io.Writer
}

func (s stream1) Read(p []byte) (int, error) {
	if s.r == nil {
		return 0, io.EOF
	}
	return s.r.Read(p)
}

func (s stream1) Close() error { return nil }

func (s stream1) Write(p []byte) (int, error) {
	if s.w == nil {
		return 0, fs.ErrInvalid
	}
	return s.w.Write(p)
}
