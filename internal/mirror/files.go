package mirror

import (
	"bytes"
	"context"
	"crypto/sha256"
	"encoding/hex"
	"errors"
	"fmt"
	"io"
	"net/http"
	"os"
	"path/filepath"
	"strings"

	"github.com/cps-gpu/homelab/internal/limit"
	"github.com/cps-gpu/homelab/internal/sums"
)

// Release is a set of files with their checksums: in a file that lists them in the form of sha256sum, or known.
type Release struct {
	URL     func(name string) string
	Sums    string            // the list; empty: Digests
	Files   []string          // of it
	Digests map[string]string // SHA-256 by file
}

// Download downloads a release into a folder, and reports each file. A file has its name when it has its checksum; one
// that is there is not downloaded again, and one that was cut off goes on where it was.
func (r Release) Download(ctx context.Context, client *http.Client, folder string, tell func(Outcome)) error {
	const private = 0o700
	if err := os.MkdirAll(folder, private); err != nil {
		return err
	}
	list, listed, err := r.sums(ctx, client)
	if err != nil {
		return err
	}
	var errs []error
	for _, name := range r.Files {
		if listed[name] == "" {
			errs = append(errs, fmt.Errorf("%s has no line for %s: a proxy may have answered instead", r.URL(r.Sums), name))
			continue
		}
		copied, err := r.file(ctx, client, filepath.Join(folder, name), listed[name])
		if err != nil {
			errs = append(errs, err)
			continue
		}
		tell(Outcome{name, copied})
	}
	if err := errors.Join(errs...); err != nil || r.Sums == "" {
		return err
	}
	// Last: the list says that the files of its release are there.
	part := filepath.Join(folder, r.Sums+partial)
	if err := os.WriteFile(part, list, 0o600); err != nil {
		return err
	}
	return os.Rename(part, strings.TrimSuffix(part, partial))
}

// sums returns the checksums by file, with the list that has them.
func (r Release) sums(ctx context.Context, client *http.Client) ([]byte, map[string]string, error) {
	if r.Sums == "" {
		return nil, r.Digests, nil
	}
	var list bytes.Buffer
	if err := r.get(ctx, client, r.Sums, 0, func(body io.Reader, _ bool) error {
		_, err := list.ReadFrom(limit.Reader(body, maxSums))
		return err
	}); err != nil {
		return nil, nil, err
	}
	listed, err := sums.Read(bytes.NewReader(list.Bytes()))
	return list.Bytes(), listed, err
}

const (
	maxSums = 1 << 20 // bytes; K3s' has a thousand
	partial = ".part" // after the name of a file that is not whole
)

// file downloads one file, unless it is there.
func (r Release) file(ctx context.Context, client *http.Client, path, want string) (copied int64, err error) {
	if sum, _, err := sumOf(path); err == nil && sum == want {
		return 0, nil
	}
	name, part := filepath.Base(path), path+"."+want[:min(len(want), 8)]+partial // of another release it is another
	f, err := os.OpenFile(part, os.O_CREATE|os.O_RDWR, 0o600)
	if err != nil {
		return 0, err
	}
	defer func() { _ = f.Close() }()
	have, err := f.Seek(0, io.SeekEnd)
	if err != nil {
		return 0, err
	}
	err = r.get(ctx, client, name, have, func(body io.Reader, whole bool) error {
		if whole {
			if err := errors.Join(f.Truncate(0), seekStart(f)); err != nil {
				return err
			}
		}
		_, err := io.Copy(f, body)
		return err
	})
	if err = errors.Join(err, f.Close()); err != nil {
		return 0, err
	}
	sum, size, err := sumOf(part)
	if err != nil {
		return 0, err
	}
	if sum != want {
		return 0, errors.Join(fmt.Errorf("%s is not the file of its checksum: it was changed on the way; run it again, which downloads all of it", r.URL(name)), os.Remove(part))
	}
	return size, os.Rename(part, path)
}

func seekStart(f *os.File) error {
	_, err := f.Seek(0, io.SeekStart)
	return err
}

// get gives the contents of a file from an offset on to read, or all of it, if the server knows no offsets. From the end
// of a file on there is nothing to read.
func (r Release) get(ctx context.Context, client *http.Client, name string, from int64, read func(body io.Reader, whole bool) error) error {
	url := r.URL(name)
	request, err := http.NewRequestWithContext(ctx, http.MethodGet, url, http.NoBody)
	if err != nil {
		return err
	}
	if from > 0 {
		request.Header.Set("Range", fmt.Sprintf("bytes=%d-", from))
	}
	answer, err := client.Do(request)
	if err != nil {
		return fmt.Errorf("%w: run it again, which goes on where it was", err)
	}
	defer func() { _ = answer.Body.Close() }()
	switch answer.StatusCode {
	case http.StatusOK, http.StatusPartialContent:
	case http.StatusRequestedRangeNotSatisfiable:
		return nil
	case http.StatusNotFound:
		return fmt.Errorf("%s: %s: is there such a release?", url, answer.Status)
	default:
		return fmt.Errorf("%s: %s: run it again later, which goes on where it was", url, answer.Status)
	}
	if err := read(answer.Body, answer.StatusCode == http.StatusOK); err != nil {
		return fmt.Errorf("%s: %w: run it again, which goes on where it was", url, err)
	}
	return nil
}

// sumOf is the SHA-256 of a file, and its size.
func sumOf(path string) (sum string, size int64, err error) {
	f, err := os.Open(path)
	if err != nil {
		return "", 0, err
	}
	defer func() { _ = f.Close() }()
	hash := sha256.New()
	size, err = io.Copy(hash, f)
	return hex.EncodeToString(hash.Sum(nil)), size, err
}
