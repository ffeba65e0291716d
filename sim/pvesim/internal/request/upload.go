package request

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

	"github.com/cps-gpu/homelab/sim/pvesim/internal/answer"
)

// Upload is the file of a multipart request.
type Upload struct {
	Filename string
	Data     []byte
}

// IsUpload reports whether a request brings a file.
func IsUpload(r *http.Request) bool {
	kind, _, err := mime.ParseMediaType(r.Header.Get("Content-Type"))
	return err == nil && kind == "multipart/form-data"
}

// ReadUpload reads a multipart body the way pveproxy does: the fields content,
// checksum-algorithm and checksum in that order and nothing else, then the file.
// (PVE/APIServer/AnyEvent.pm, file_upload_multipart)
func ReadUpload(r *http.Request, p Params) (*Upload, error) {
	up := &Upload{}
	bad := func() (*Upload, error) {
		return up, &answer.Error{Status: http.StatusBadRequest, Text: "Bad Request", Bare: true}
	}
	if r.ContentLength < 0 || slices.Contains(r.TransferEncoding, "chunked") {
		return up, &answer.Error{Status: http.StatusNotImplemented, Text: "chunked transfer encoding not supported", Bare: true}
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
			return up, answer.Unread(http.StatusInternalServerError, "upload failed at /usr/share/perl5/PVE/APIServer/AnyEvent.pm line 1370.\n")
		}
		if err != nil {
			return bad()
		}
		if part.FormName() == "filename" && part.FileName() != "" {
			up.Filename = path.Base(part.FileName())
			p["filename"] = []string{NormalName(up.Filename)}
			if up.Data, err = readFile(part, r.ContentLength); err != nil {
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

// NormalName is a file's name as Proxmox stores it.
func NormalName(s string) string { return unusual.ReplaceAllString(s, "_") }
