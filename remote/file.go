package remote

import (
	"bytes"
	"context"
	_ "embed" // the script below
	"errors"
	"fmt"
	"io"
	"io/fs"
	"strconv"
	"strings"
)

//go:embed write.sh
var writeScript string

// ReadFile reads a file. One that does not exist is an error that wraps
// [fs.ErrNotExist]; the [*ExitError] is there as well.
func ReadFile(ctx context.Context, r Runner, path string) ([]byte, error) {
	b, err := Output(ctx, r, "cat", "--", path)
	if err != nil {
		return nil, &fs.PathError{Op: "read", Path: path, Err: missing(err)}
	}
	return b, nil
}

// missing adds [fs.ErrNotExist] to the error of a cat that said so, in the words
// of strerror(3). A machine that speaks another language gives the plain error.
func missing(err error) error {
	var exit *ExitError
	if !errors.As(err, &exit) {
		return err
	}
	for _, words := range []string{"No such file or directory", "Not a directory"} {
		if strings.HasSuffix(strings.TrimSpace(exit.Stderr), words) {
			return fmt.Errorf("%w: %w", fs.ErrNotExist, err)
		}
	}
	return err
}

// Exists reports whether there is something at path. What one may not look at
// does not exist, as for test(1).
func Exists(ctx context.Context, r Runner, path string) (bool, error) {
	err := Run(ctx, r, "test", "-e", path)
	var exit *ExitError
	if errors.As(err, &exit) && exit.Code == 1 {
		return false, nil
	}
	return err == nil, err
}

// WriteFile writes a file with exactly the permission bits perm, wholly or not at
// all: it is written under another name beside it, and takes its place when every
// byte has arrived. Folders that are missing are made, with mode 0755. The content
// travels on stdin only.
//
// The file belongs to the user who runs commands through r. A symbolic link at
// path is replaced, not followed.
func WriteFile(ctx context.Context, r Runner, path string, data []byte, perm fs.FileMode) error {
	return CopyFile(ctx, r, path, bytes.NewReader(data), int64(len(data)), perm)
}

// CopyFile is [WriteFile] for content that is too large to hold in memory: size
// bytes are read from src, and any other number is an error that leaves the file
// as it was.
func CopyFile(ctx context.Context, r Runner, path string, src io.Reader, size int64, perm fs.FileMode) error {
	if !strings.HasPrefix(path, "/") || strings.HasSuffix(path, "/") {
		return &fs.PathError{Op: "write", Path: path, Err: errors.New("not an absolute path of a file")}
	}
	err := r.Run(ctx, Cmd{
		Args: []string{"sh", "-c", writeScript, "write.sh",
			path, fmt.Sprintf("%04o", perm.Perm()), strconv.FormatInt(size, 10)},
		Stdin: src,
	})
	if err != nil {
		return &fs.PathError{Op: "write", Path: path, Err: err}
	}
	return nil
}
