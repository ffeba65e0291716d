package clusterfile

import (
	"fmt"
	"path"
	"strings"

	"github.com/cps-gpu/homelab/cluster/clusterfile/internal/decode"
	"github.com/cps-gpu/homelab/cluster/spec"
	"github.com/cps-gpu/homelab/internal/distro"
)

// imageSection completes and checks image.
type imageSection struct{ *resolver }

func (r imageSection) image() {
	img := &r.spec.Image
	d := distro.ByName(img.Distribution)
	img.Release = d.Release
	r.imageSums(img)
	r.IsURL(&img.URL, "http", "https")
	for _, at := range []*string{&img.ImageStorage, &img.TemplateStorage, &img.SeedStorage} {
		r.storageName(at)
	}
	img.SHA256, img.SHA512 = strings.ToLower(img.SHA256), strings.ToLower(img.SHA512)
	switch {
	case r.spec.LabGuests.QEMU():
		labSection(r).labHasImage(img)
	case img.Template != "" && img.URL != "":
		r.Wrong(&img.Template, "the image is both a template and a URL", "keep template to use an existing one, or url to create one")
	case img.Template != "":
	case img.URL == "" && img.SHA256+img.SHA512 == "":
		img.URL, img.SHA256, img.SHA512 = d.Image, d.SHA256, d.SHA512
	case img.URL == "":
		r.Wrong(&img.URL, "the image has a checksum and no URL", "write url: beside it")
	case img.SHA256+img.SHA512 == "" && !r.spec.IsLab():
		key := strings.ToLower(strings.TrimSuffix(d.Sums, "SUMS"))
		r.Wrong(&img.SHA256, "the image has no checksum", "write "+key+": with the image's line in the file "+d.Sums+" beside it")
	}
}

// imageSums checks the checksums that the file has for its image.
func (r imageSection) imageSums(raw *spec.Image) {
	if raw.SHA256 != "" && !decode.Matches(`^[0-9a-fA-F]{64}$`, raw.SHA256) {
		r.Wrong(&raw.SHA256, "sha256 is not a SHA-256", "write its 64 hex digits")
	}
	if raw.SHA512 != "" && !decode.Matches(`^[0-9a-fA-F]{128}$`, raw.SHA512) {
		r.Wrong(&raw.SHA512, "sha512 is not a SHA-512", "write its 128 hex digits")
	}
	if raw.SHA256 != "" && raw.SHA512 != "" {
		r.Wrong(&raw.SHA256, "the image has two checksums, and Proxmox compares one", "keep the longer one")
	}
	if release := distro.UnusableRelease(raw.URL); release != "" {
		r.Wrong(&raw.URL, "this is an image of "+release+", whose cloud-init cannot rename the network card to eth0: its machines get no address",
			"leave it out, or write one of "+distro.ByName(raw.Distribution).Title)
	}
	for _, d := range distro.All() {
		if name := path.Base(raw.URL); strings.HasPrefix(name, d.ID+"-") && distro.ByName(raw.Distribution).ID != d.ID {
			r.Wrong(&raw.URL, fmt.Sprintf("%s is not an image of %s", name, distro.ByName(raw.Distribution).Title),
				"write distribution: "+d.Name+" beside it")
		}
	}
}
