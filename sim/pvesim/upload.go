package pvesim

import (
	"bytes"
	"crypto/md5"
	"crypto/sha1"
	"crypto/sha256"
	"crypto/sha512"
	"encoding/hex"
	"errors"
	"fmt"
	"io"
	"mime"
	"mime/multipart"
	"net/http"
	"path"
	"regexp"
	"slices"
	"strings"
	"time"

	"github.com/cps-gpu/homelab/sim/guest"
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

// verify compares a file with the checksum that came with the request, if one did.
func (w worker) verify(data []byte, algorithm, want string) error {
	if algorithm == "" {
		return nil
	}
	if got := checksum(algorithm, data); !strings.EqualFold(got, want) {
		w.log("calculating checksum...")
		return die("checksum mismatch: got '%s' != expect '%s'", got, want)
	}
	w.log("calculating checksum...OK, checksum verified")
	return nil
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

// extensions are those that a kind of content may have.
var extensions = map[string]*regexp.Regexp{
	"iso":    regexp.MustCompile(`(?i)^[^/]+\.(iso|img)$`),
	"vztmpl": regexp.MustCompile(`(?i)^[^/]+\.(tar|tar\.(gz|xz|zst|bz2))$`),
	"import": regexp.MustCompile(`^[a-zA-Z0-9.+=_-]+\.(qcow2|raw|vmdk|ova)$`),
}

// nameFor refuses a name that a kind of content may not have.
func nameFor(content, name string) error {
	switch {
	case extensions[content].MatchString(name):
		return nil
	case content == "import":
		return badParam("filename", "invalid filename or wrong extension")
	}
	return badParam("filename", "wrong file extension")
}

func (c *call) uploadFile() (any, error) {
	st, err := c.storage()
	if err == nil {
		err = st.ready()
	}
	if err != nil {
		return nil, err
	}
	if c.upload == nil {
		return nil, badParam("filename", "property is missing and it is not optional")
	}
	content := c.param("content")
	name := c.param("filename")
	if err := c.s.contentOfToday(content); err != nil {
		return nil, err
	}
	if !st.fileBased() {
		return nil, die("can't upload to storage type '%s'", st.Type)
	}
	if err := nameFor(content, name); err != nil {
		return nil, err
	}
	if !slices.Contains(st.Content, content) {
		return nil, die("storage '%s' does not support '%s' content", st.Name, content)
	}
	algorithm, want := c.param("checksum-algorithm"), c.param("checksum")
	data := c.upload.data
	return c.startTask("imgcopy", "", func(w worker) error {
		tmp := fmt.Sprintf("/var/tmp/pveupload-%032x", w.task.pid)
		w.log("starting file import from: %s", tmp)
		if err := w.verify(data, algorithm, want); err != nil {
			return err
		}
		if err := w.sound(content, name, tmp, data); err != nil {
			return err
		}
		target := st.path(content + "/" + name)
		w.log("target node: %s\ntarget file: %s\nfile size is: %d\ncommand: cp -- %s %s", w.task.node, target, len(data), tmp, target)
		if err := w.sleep(w.s.opts.Timing.Upload); err != nil {
			return err
		}
		st.putFile(content, name, data)
		w.log("finished file import successfully")
		return nil
	})
}

func (st *storage) putFile(content, name string, data []byte) {
	full := content + "/" + name
	format := strings.TrimPrefix(path.Ext(name), ".")
	if content == "iso" {
		format = "iso"
	}
	st.volumes[full] = &volume{name: full, content: content, format: format,
		size: int64(len(data)), data: data, made: time.Now()}
}

func isQcow2(data []byte) bool { return bytes.HasPrefix(data, []byte("QFI\xfb")) }

func checksum(algorithm string, data []byte) string {
	switch algorithm {
	case "md5":
		sum := md5.Sum(data)
		return hex.EncodeToString(sum[:])
	case "sha1":
		sum := sha1.Sum(data)
		return hex.EncodeToString(sum[:])
	case "sha224":
		sum := sha256.Sum224(data)
		return hex.EncodeToString(sum[:])
	case "sha256":
		return guest.SHA256(data)
	case "sha384":
		sum := sha512.Sum384(data)
		return hex.EncodeToString(sum[:])
	}
	return guest.SHA512(data)
}

func (c *call) downloadURL() (any, error) {
	st, err := c.storage()
	if err == nil {
		err = st.ready()
	}
	if err != nil {
		return nil, err
	}
	content, url := c.param("content"), c.param("url")
	name := normalName(path.Base(strings.ReplaceAll(c.param("filename"), `\`, "/")))
	if err := c.s.contentOfToday(content); err != nil {
		return nil, err
	}
	if !st.fileBased() {
		return nil, die("can't upload to storage type '%s', not a file based storage!", st.Type)
	}
	if !slices.Contains(st.Content, content) {
		return nil, die("storage '%s' is not configured for content-type '%s'", st.Name, content)
	}
	if err := nameFor(content, name); err != nil {
		return nil, err
	}
	algorithm, want, compression := c.param("checksum-algorithm"), c.param("checksum"), c.param("compression")
	return c.startTask("download", name, func(w worker) error {
		target := st.path(content + "/" + name)
		w.log("downloading %s to %s", url, target)
		if old := st.volumes[content+"/"+name]; old != nil {
			return w.keepFile(old, target, algorithm, want)
		}
		if compression != "" && content != "iso" {
			return die("decompression not supported for %s", content)
		}
		tmp := fmt.Sprintf("%s.tmp_dwnl.%d", target, w.task.pid)
		data, err := w.fetch(url, tmp)
		if err != nil {
			return err
		}
		if err := w.verify(data, algorithm, want); err != nil {
			return err
		}
		if compression != "" {
			if data, err = w.decompress(compression, tmp, data); err != nil {
				return err
			}
		}
		if err := w.sound(content, name, tmp, data); err != nil {
			return die("failed to verify file: %v", err)
		}
		st.putFile(content, name, data)
		w.log("download of '%s' to '%s' finished", url, target)
		return nil
	})
}

// keepFile is a download onto a file that is there already.
func (w worker) keepFile(old *volume, target, algorithm, want string) error {
	if algorithm == "" {
		return die("refusing to override existing file '%s'", target)
	}
	got := checksum(algorithm, old.data)
	if !strings.EqualFold(got, want) {
		w.log("calculating checksum of existing file...")
		return die("checksum mismatch: got '%s' != expect '%s', aborting", got, want)
	}
	w.log("calculating checksum of existing file...OK, got correct file already, no need to download")
	return nil
}

// took is how long so much data takes.
func took(n, perSecond Size) time.Duration {
	return time.Duration(float64(n) / float64(perSecond) * float64(time.Second))
}
