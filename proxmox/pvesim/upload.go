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

	"github.com/cps-gpu/homelab/proxmox/pvesim/guest"
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
		if errors.Is(err, io.EOF) || err != nil {
			return bad() // the file never came
		}
		data, err := io.ReadAll(part)
		if err != nil {
			return bad()
		}
		if part.FormName() == "filename" && part.FileName() != "" {
			up.filename, up.data = path.Base(part.FileName()), data
			p["filename"] = []string{normalName(up.filename)}
			return up, nil
		}
		i := slices.Index(order, part.FormName())
		if i < 0 {
			return bad()
		}
		p[part.FormName()] = []string{strings.TrimSpace(string(data))}
		order = order[i+1:]
	}
}

var unusual = regexp.MustCompile(`[^a-zA-Z0-9_.-]`)

// normalName is what becomes of a file's name.
func normalName(s string) string { return unusual.ReplaceAllString(s, "_") }

// extensions are those that a kind of content may have.
var extensions = map[string]*regexp.Regexp{
	"iso":    regexp.MustCompile(`(?i)^[^/]+\.(iso|img)$`),
	"vztmpl": regexp.MustCompile(`(?i)^[^/]+\.(tar\.(gz|xz|zst|bz2))$`),
	"import": regexp.MustCompile(`(?i)^[^/]+\.(qcow2|raw|vmdk|ova)$`),
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
	if err := st.needContent(content); err != nil {
		return nil, err
	}
	if !extensions[content].MatchString(name) {
		return nil, badParam("filename", "wrong file extension")
	}
	algorithm, want := c.param("checksum-algorithm"), c.param("checksum")
	data := c.upload.data
	return c.startTask("imgcopy", "", func(w worker) error {
		tmp := fmt.Sprintf("/var/tmp/pveupload-%032x", w.task.pid)
		w.log("starting file import from: %s", tmp)
		if strings.HasSuffix(name, ".qcow2") && !isQcow2(data) {
			w.log("command '/usr/bin/qemu-img info '--output=json' %s -f qcow2' failed: exit code 1", tmp)
			return die("qemu-img: Could not open '%s': Image is not in qcow2 format", tmp)
		}
		if err := w.verify(data, algorithm, want); err != nil {
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
	name := normalName(c.param("filename"))
	if err := c.s.contentOfToday(content); err != nil {
		return nil, err
	}
	if err := st.needContent(content); err != nil {
		return nil, err
	}
	if !extensions[content].MatchString(name) {
		return nil, badParam("filename", "invalid filename or wrong extension")
	}
	algorithm, want := c.param("checksum-algorithm"), c.param("checksum")
	return c.startTask("download", name, func(w worker) error {
		target := st.path(content + "/" + name)
		w.log("downloading %s to %s", url, target)
		if old := st.volumes[content+"/"+name]; old != nil {
			return w.keepFile(old, target, algorithm, want)
		}
		data, err := w.fetch(url)
		if err != nil {
			return err
		}
		if err := w.verify(data, algorithm, want); err != nil {
			return err
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

// cloudImage is how big the disk images of the simulated internet are taken to
// be, when it comes to how long they take.
const cloudImage = 600 * MiB

// fetch downloads from the simulated internet, with what wget says of it.
func (w worker) fetch(url string) (data []byte, err error) {
	w.log("--%s--  %s", time.Now().Format(time.DateTime), url)
	w.s.outside(func() { data, err = w.s.opts.Internet(url) })
	switch {
	case errors.Is(err, guest.ErrNotFound):
		w.log("HTTP request sent, awaiting response... 404 Not Found\n%s ERROR 404: Not Found.", time.Now().Format(time.DateTime))
		return nil, die("download failed: exit code 8")
	case errors.Is(err, guest.ErrUntrusted):
		w.log("ERROR: cannot verify the certificate of %s: %v", url, err)
		return nil, die("download failed: To connect insecurely, use `--no-check-certificate'.")
	case err != nil: // the last line that wget prints, where that is not empty (PVE/Tools.pm, run_command)
		return nil, die("download failed: %v", err)
	}
	size := Size(len(data))
	if isQcow2(data) {
		size = max(size, cloudImage)
	}
	w.log("HTTP request sent, awaiting response... 200 OK\nLength: %d (%dM) [application/octet-stream]", size, size/MiB)
	return data, w.dots(size)
}

// wgetLine is how much a line of wget's progress stands for (--progress=dot:giga).
const wgetLine = 32 * MiB

// dots is how long a download takes, with what wget prints of it.
func (w worker) dots(size Size) error {
	for at := Size(0); at < size; at += wgetLine {
		part := min(wgetLine, size-at)
		if err := w.sleep(took(part, w.s.opts.Timing.DownloadRate)); err != nil {
			return err
		}
		if size >= wgetLine {
			w.log("%6dK ........ ........ ........ ........ %2d%% 98.1M", at/KiB, 100*(at+part)/size)
		}
	}
	return nil
}

// took is how long so much data takes.
func took(n, perSecond Size) time.Duration {
	return time.Duration(float64(n) / float64(perSecond) * float64(time.Second))
}
