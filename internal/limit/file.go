package limit

import (
	"fmt"
	"io"
	"os"
	"syscall"
)

// Named is how much is read of a file that a cluster file names: a key, a certificate,
// a list of hosts.
const Named = 4 << 20

// File reads a file whose path came from somebody else. It must be a regular file: a pipe would
// keep its reader for good, and a device never ends.
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
		return nil, fmt.Errorf("%s is not a file: name a file, no folder, pipe or device", path)
	case info.Size() > most:
		return nil, fmt.Errorf("%s: %w", path, &Error{Most: most, Size: info.Size()})
	}
	data, err := io.ReadAll(Reader(f, most)) // it may grow, and the size of those in /proc is 0
	if err != nil {
		return nil, fmt.Errorf("%s: %w", path, err)
	}
	return data, nil
}
