package storages

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
	"github.com/cps-gpu/homelab/sim/pvesim/internal/answer"
	"github.com/cps-gpu/homelab/sim/pvesim/internal/release"
	"github.com/cps-gpu/homelab/sim/pvesim/internal/request"
	"github.com/cps-gpu/homelab/sim/pvesim/internal/world"
)

// verify compares a file with the checksum that came with the request, if one did.
func verify(w world.Worker, data []byte, algorithm, want string) error {
	if algorithm == "" {
		return nil
	}
	if got := checksum(algorithm, data); !strings.EqualFold(got, want) {
		w.Log("calculating checksum...")
		return answer.Die("checksum mismatch: got '%s' != expect '%s'", got, want)
	}
	w.Log("calculating checksum...OK, checksum verified")
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
		return answer.BadParam("filename", "invalid filename or wrong extension")
	}
	return answer.BadParam("filename", "wrong file extension")
}

func uploadFile(c *world.Call) (any, error) {
	st, err := c.Storage()
	if err == nil {
		err = st.Ready()
	}
	if err != nil {
		return nil, err
	}
	if c.Upload == nil {
		return nil, answer.BadParam("filename", "property is missing and it is not optional")
	}
	content := c.Param("content")
	name := c.Param("filename")
	if err := release.ContentOfToday(c.State, content); err != nil {
		return nil, err
	}
	if !st.FileBased() {
		return nil, answer.Die("can't upload to storage type '%s'", st.Type)
	}
	if err := nameFor(content, name); err != nil {
		return nil, err
	}
	if !slices.Contains(st.Content, content) {
		return nil, answer.Die("storage '%s' does not support '%s' content", st.Name, content)
	}
	algorithm, want := c.Param("checksum-algorithm"), c.Param("checksum")
	data := c.Upload.Data
	return c.StartTask("imgcopy", "", func(w world.Worker) error {
		tmp := fmt.Sprintf("/var/tmp/pveupload-%032x", w.Task.PID)
		w.Log("starting file import from: %s", tmp)
		if err := verify(w, data, algorithm, want); err != nil {
			return err
		}
		if err := sound(w, content, name, tmp, data); err != nil {
			return err
		}
		target := st.Path(content + "/" + name)
		w.Log("target node: %s\ntarget file: %s\nfile size is: %d\ncommand: cp -- %s %s", w.Task.Node, target, len(data), tmp, target)
		if err := w.Sleep(w.State.Options.Timing.Upload); err != nil {
			return err
		}
		st.PutFile(content, name, data)
		w.Log("finished file import successfully")
		return nil
	})
}

// checksum is that of a file, in hexadecimal digits.
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

func downloadURL(c *world.Call) (any, error) {
	st, err := c.Storage()
	if err == nil {
		err = st.Ready()
	}
	if err != nil {
		return nil, err
	}
	content, url := c.Param("content"), c.Param("url")
	name := request.NormalName(path.Base(strings.ReplaceAll(c.Param("filename"), `\`, "/")))
	if err := release.ContentOfToday(c.State, content); err != nil {
		return nil, err
	}
	if !st.FileBased() {
		return nil, answer.Die("can't upload to storage type '%s', not a file based storage!", st.Type)
	}
	if !slices.Contains(st.Content, content) {
		return nil, answer.Die("storage '%s' is not configured for content-type '%s'", st.Name, content)
	}
	if err := nameFor(content, name); err != nil {
		return nil, err
	}
	algorithm, want, compression := c.Param("checksum-algorithm"), c.Param("checksum"), c.Param("compression")
	return c.StartTask("download", name, func(w world.Worker) error {
		target := st.Path(content + "/" + name)
		w.Log("downloading %s to %s", url, target)
		if old := st.Volumes[content+"/"+name]; old != nil {
			return keepFile(w, old, target, algorithm, want)
		}
		if compression != "" && content != "iso" {
			return answer.Die("decompression not supported for %s", content)
		}
		tmp := fmt.Sprintf("%s.tmp_dwnl.%d", target, w.Task.PID)
		data, err := fetch(w, url, tmp)
		if err != nil {
			return err
		}
		if err := verify(w, data, algorithm, want); err != nil {
			return err
		}
		if compression != "" {
			if data, err = decompress(w, compression, tmp, data); err != nil {
				return err
			}
		}
		if err := sound(w, content, name, tmp, data); err != nil {
			return answer.Die("failed to verify file: %v", err)
		}
		st.PutFile(content, name, data)
		w.Log("download of '%s' to '%s' finished", url, target)
		return nil
	})
}

// keepFile is a download onto a file that is there already.
func keepFile(w world.Worker, old *world.Volume, target, algorithm, want string) error {
	if algorithm == "" {
		return answer.Die("refusing to override existing file '%s'", target)
	}
	got := checksum(algorithm, old.Data)
	if !strings.EqualFold(got, want) {
		w.Log("calculating checksum of existing file...")
		return answer.Die("checksum mismatch: got '%s' != expect '%s', aborting", got, want)
	}
	w.Log("calculating checksum of existing file...OK, got correct file already, no need to download")
	return nil
}
