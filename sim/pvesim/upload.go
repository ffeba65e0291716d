package pvesim

import (
	"crypto/md5"
	"crypto/sha1"
	"crypto/sha256"
	"crypto/sha512"
	"encoding/hex"
	"fmt"
	"path"
	"regexp"
	"slices"
	"strings"

	"github.com/cps-gpu/homelab/sim/guest"
)

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
