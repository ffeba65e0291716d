package storages

import (
	"archive/tar"
	"bytes"
	"compress/gzip"
	"errors"
	"fmt"
	"io"
	"net/url"
	"path"
	"strings"

	"github.com/cps-gpu/homelab/sim/pvesim/internal/answer"
	"github.com/cps-gpu/homelab/sim/pvesim/internal/world"
)

// sound refuses an image or an appliance that is none, before anybody boots it.
func sound(w world.Worker, content, name, tmp string, data []byte) error {
	if content != "import" {
		return nil
	}
	info, wrong := "/usr/bin/qemu-img info '--output=json' "+tmp+" -f "+strings.TrimPrefix(path.Ext(name), "."), ""
	switch path.Ext(name) {
	case ".qcow2":
		if !world.IsQCOW2(data) {
			wrong = "Image is not in qcow2 format"
		}
	case ".vmdk":
		if !bytes.HasPrefix(data, []byte("KDMV")) && !bytes.HasPrefix(data, []byte("# Disk DescriptorFile")) {
			wrong = "invalid VMDK image descriptor"
		}
	case ".ova":
		return appliance(w, tmp, data)
	}
	if wrong == "" {
		return nil
	}
	w.Log("command '%s' failed: exit code 1", info)
	return answer.Die("qemu-img: Could not open '%s': %s", tmp, wrong)
}

// appliance looks into an archive for the description of its machine.
func appliance(w world.Worker, tmp string, data []byte) error {
	archive := tar.NewReader(bytes.NewReader(data))
	for {
		file, err := archive.Next()
		switch {
		case errors.Is(err, io.EOF):
			return answer.Die("ova archive has no .ovf file inside")
		case err != nil:
			w.Log("tar: This does not look like a tar archive\ntar: Exiting with failure status due to previous errors")
			return answer.Die("command 'tar -t -f %s' failed: exit code 2", tmp)
		case strings.HasSuffix(file.Name, ".ovf"):
			return nil
		}
	}
}

// decompress unpacks a download. Of what Proxmox knows, only gzip is really unpacked;
// nothing of the other kinds is on the simulated internet.
func decompress(w world.Worker, compression, tmp string, data []byte) ([]byte, error) {
	program := map[string]string{"gz": "zcat", "lzo": "lzop -d -c", "zst": "zstd -q -d -c", "bz2": "bzcat -q"}[compression]
	w.Log("decompressing %s to %s", tmp, strings.Replace(tmp, ".tmp_dwnl.", ".tmp_dcom.", 1))
	failed := answer.Die("command '%s %s' failed: exit code 1", program, tmp)
	if compression == "zst" {
		w.Log("zstd: %s: unsupported format ", tmp)
	}
	if compression != "gz" {
		return nil, failed
	}
	z, err := gzip.NewReader(bytes.NewReader(data))
	if err != nil {
		w.Log("\ngzip: %s: not in gzip format", tmp)
		return nil, failed
	}
	out, err := io.ReadAll(z)
	if err != nil {
		return nil, fmt.Errorf("%w: %w", failed, err)
	}
	return out, nil
}

// serverOf is the server of a URL as wget names it.
func serverOf(raw string) string {
	u, err := url.Parse(raw)
	if err != nil {
		return raw
	}
	return withPort(u)
}
