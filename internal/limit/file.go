package limit

import (
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"syscall"
)

// Named is how much is read of a file that a cluster file names: a key, a certificate,
// a list of hosts.
const Named = 4 << 20

// File reads a file whose path came from somebody else. It must be a regular file: a pipe would
// keep its reader for good, and a device never ends. Errors are [*fs.PathError], or wrap an [*Error].
func File(path string, most int64) ([]byte, error) {
	f, err := os.OpenFile(path, os.O_RDONLY|syscall.O_NONBLOCK, 0) // a pipe without a writer would not open
	if err != nil {
		return nil, err
	}
	defer func() { _ = f.Close() }()
	info, err := f.Stat()
	switch {
	case err != nil:
		return nil, err
	case !info.Mode().IsRegular():
		return nil, &fs.PathError{Op: "read", Path: path, Err: errors.New("is not a file: name a file, no folder, pipe or device")}
	case info.Size() > most:
		return nil, fmt.Errorf("%s: %w", path, &Error{Most: most, Size: info.Size()})
	}
	data, err := io.ReadAll(Reader(f, most)) // it may grow, and the size of those in /proc is 0
	if err != nil {
		return nil, fmt.Errorf("%s: %w", path, err)
	}
	return data, nil
}
