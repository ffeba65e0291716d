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

// ReadFile reads a file. If it does not exist, the error wraps [fs.ErrNotExist] and the
// [*ExitError].
func ReadFile(ctx context.Context, r Runner, path string) ([]byte, error) {
	b, err := Output(ctx, r, "cat", "--", path)
	if err != nil {
		return nil, &fs.PathError{Op: "read", Path: path, Err: asNotExist(err)}
	}
	return b, nil
}

// asNotExist adds [fs.ErrNotExist] to the error of a cat that reports it, with the text of
// strerror(3). With another locale the plain error is returned.
func asNotExist(err error) error {
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

// Exists reports whether there is something at path. As with test(1), what the user may not
// see does not exist.
func Exists(ctx context.Context, r Runner, path string) (bool, error) {
	err := Run(ctx, r, "test", "-e", path)
	var exit *ExitError
	if errors.As(err, &exit) && exit.Code == 1 {
		return false, nil
	}
	return err == nil, err
}

// WriteFile atomically writes a file with exactly the permission bits perm: it writes another
// file beside it and renames that once every byte has arrived. It creates missing folders with
// mode 0755. The content is sent only on stdin.
//
// The file belongs to the user who runs commands through r. A symbolic link at
// path is replaced, not followed.
func WriteFile(ctx context.Context, r Runner, path string, data []byte, perm fs.FileMode) error {
	return CopyFile(ctx, r, path, bytes.NewReader(data), int64(len(data)), perm)
}

// CopyFile is [WriteFile] for content that is too large for memory: it reads size bytes from
// src; any other number is an error that leaves the file unchanged.
func CopyFile(ctx context.Context, r Runner, path string, src io.Reader, size int64, perm fs.FileMode) error {
	if !strings.HasPrefix(path, "/") || strings.HasSuffix(path, "/") {
		return &fs.PathError{Op: "write", Path: path, Err: errors.New("not an absolute path of a file")}
	}
	err := run(ctx, r, Cmd{
		Args: []string{"sh", "-c", writeScript, "write.sh",
			path, fmt.Sprintf("%04o", perm.Perm()), strconv.FormatInt(size, 10)},
		Stdin: src,
	})
	if err != nil {
		return &fs.PathError{Op: "write", Path: path, Err: err}
	}
	return nil
}
