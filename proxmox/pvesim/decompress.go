package pvesim

import (
	"bytes"
	"compress/gzip"
	"fmt"
	"io"
	"net/url"
	"strings"
)

// sound refuses an image that is none.
func (w worker) sound(content, name, tmp string, data []byte) error {
	if content != "import" {
		return nil
	}
	text := unsound(name, tmp, data)
	if text == "" {
		return nil
	}
	w.log("command '/usr/bin/qemu-img info '--output=json' %s -f %s' failed: exit code 1", tmp, extensions[content].FindStringSubmatch(name)[1])
	return die("%s", text)
}

// decompress unpacks a download. Of what Proxmox knows, only gzip is really unpacked;
// nothing of the other kinds is on the simulated internet.
func (w worker) decompress(compression, tmp string, data []byte) ([]byte, error) {
	program := map[string]string{"gz": "zcat", "lzo": "lzop -d -c", "zst": "zstd -q -d -c", "bz2": "bzcat -q"}[compression]
	w.log("decompressing %s to %s", tmp, strings.Replace(tmp, ".tmp_dwnl.", ".tmp_dcom.", 1))
	failed := die("command '%s %s' failed: exit code 1", program, tmp)
	if compression != "gz" {
		return nil, failed
	}
	z, err := gzip.NewReader(bytes.NewReader(data))
	if err != nil {
		w.log("\ngzip: %s: not in gzip format", tmp)
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
