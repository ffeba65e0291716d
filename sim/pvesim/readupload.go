package pvesim

import (
	"bytes"
	"errors"
	"io"
	"mime"
	"mime/multipart"
	"net/http"
	"path"
	"regexp"
	"slices"
	"strings"
)

// upload is the file of a multipart request.
type upload struct {
	filename string
	data     []byte
}

func isUpload(r *http.Request) bool {
	kind, _, err := mime.ParseMediaType(r.Header.Get("Content-Type"))
	return err == nil && kind == "multipart/form-data"
}

// readUpload reads a multipart body the way pveproxy does: the fields content,
// checksum-algorithm and checksum in that order and nothing else, then the file.
// (PVE/APIServer/AnyEvent.pm, file_upload_multipart)
func readUpload(r *http.Request, p params) (*upload, error) {
	up := &upload{}
	bad := func() (*upload, error) {
		return up, &apiError{status: http.StatusBadRequest, text: "Bad Request", bare: true}
	}
	if r.ContentLength < 0 || slices.Contains(r.TransferEncoding, "chunked") {
		return up, &apiError{status: http.StatusNotImplemented, text: "chunked transfer encoding not supported", bare: true}
	}
	_, attrs, err := mime.ParseMediaType(r.Header.Get("Content-Type"))
	if err != nil {
		return bad()
	}
	order := []string{"content", "checksum-algorithm", "checksum"}
	reader := multipart.NewReader(r.Body, attrs["boundary"])
	for {
		part, err := reader.NextRawPart()
		if errors.Is(err, io.EOF) {
			return up, unread(http.StatusInternalServerError, "upload failed at /usr/share/perl5/PVE/APIServer/AnyEvent.pm line 1370.\n")
		}
		if err != nil {
			return bad()
		}
		if part.FormName() == "filename" && part.FileName() != "" {
			up.filename = path.Base(part.FileName())
			p["filename"] = []string{normalName(up.filename)}
			if up.data, err = readFile(part, r.ContentLength); err != nil {
				return bad()
			}
			return up, nil
		}
		data, err := io.ReadAll(part)
		if err != nil {
			return bad()
		}
		i := slices.Index(order, part.FormName())
		if i < 0 {
			return bad()
		}
		p[part.FormName()] = []string{strings.TrimSpace(string(data))}
		order = order[i+1:]
	}
}

// readFile reads what is at most as long as the request said that it would be, into its place
// at once: a client waits seconds for the answer to hundreds of megabytes.
func readFile(from io.Reader, most int64) ([]byte, error) {
	const believed = 1 << 30
	data := bytes.NewBuffer(make([]byte, 0, min(most, believed)+bytes.MinRead))
	_, err := data.ReadFrom(from)
	return data.Bytes(), err
}

var unusual = regexp.MustCompile(`[^a-zA-Z0-9_.-]`)

// normalName is what becomes of a file's name.
func normalName(s string) string { return unusual.ReplaceAllString(s, "_") }
