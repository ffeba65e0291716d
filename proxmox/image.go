package proxmox

import (
	"context"
	"errors"
	"fmt"
	"net/http"
	"path"
	"regexp"
	"slices"
	"strings"

	"github.com/cps-gpu/homelab/converge"
	"github.com/cps-gpu/homelab/internal/distro"
	"github.com/cps-gpu/homelab/internal/printable"
	"github.com/cps-gpu/homelab/proxmox/internal/api"
)

// Image is a disk image on the web.
type Image struct {
	URL      string
	SHA256   string
	SHA512   string // instead of SHA256, if that is what the publisher offers
	FileName string // its name on the storage; ends in .qcow2, .raw, .vmdk or .ova
}

// CloudImage returns the cloud image that clusters of a distribution are made from: "ubuntu-24.04" or
// "debian-13", and Ubuntu for "". It is a dated one for amd64, with the checksum that its publisher
// lists.
func CloudImage(distribution string) (Image, error) {
	if distribution != "" && !slices.Contains(distro.Names(), distribution) {
		return Image{}, fmt.Errorf("image of %q: this package knows %s", distribution, strings.Join(distro.Names(), " and "))
	}
	d := distro.ByName(distribution)
	name := strings.TrimSuffix(path.Base(d.Image), path.Ext(d.Image)) + ".qcow2"
	return Image{URL: d.Image, SHA256: d.SHA256, SHA512: d.SHA512, FileName: name}, nil
}

var (
	imageName  = regexp.MustCompile(`^[a-zA-Z0-9][a-zA-Z0-9_.-]*\.(qcow2|raw|vmdk|ova)$`)
	sha256Text = regexp.MustCompile(`^[0-9a-fA-F]{64}$`)
	sha512Text = regexp.MustCompile(`^[0-9a-fA-F]{128}$`)
)

func (i Image) check() error {
	switch {
	case !imageName.MatchString(i.FileName):
		return fmt.Errorf("image name %q: Proxmox imports files that end in .qcow2, .raw, .vmdk or .ova; an Ubuntu .img is a qcow2 image: call it .qcow2", i.FileName)
	case i.SHA512 != "" && (i.SHA256 != "" || !sha512Text.MatchString(i.SHA512)):
		return fmt.Errorf("image %s: %q is not a SHA-512 checksum, or there is a SHA-256 beside it", i.URL, i.SHA512)
	case i.SHA512 == "" && !sha256Text.MatchString(i.SHA256):
		return fmt.Errorf("image %s: %q is not a SHA-256 checksum", i.URL, i.SHA256)
	case !strings.HasPrefix(i.URL, "https://") && !strings.HasPrefix(i.URL, "http://"):
		return fmt.Errorf("image address %q: Proxmox downloads http and https", i.URL)
	}
	return nil
}

// Image returns the volume id of an image on a storage, or "" if there is none.
func (c *StorageClient) Image(ctx context.Context, host, storage, fileName string) (string, error) {
	return c.volumeNamed(ctx, host, storage, importContent, fileName)
}

// ISO returns the volume id of an ISO on a storage, or "" if there is none.
func (c *StorageClient) ISO(ctx context.Context, host, storage, fileName string) (string, error) {
	return c.volumeNamed(ctx, host, storage, "iso", fileName)
}

func (c *StorageClient) volumeNamed(ctx context.Context, host, storage, content, name string) (string, error) {
	all, err := c.Volumes(ctx, host, storage, content)
	if err != nil {
		return "", err
	}
	for _, v := range all {
		if v.Name() == name {
			return v.ID, nil
		}
	}
	return "", nil
}

// importContent is Proxmox's name for disk images that VMs can be made from.
const importContent = "import"

// CheckImport returns an error unless this Proxmox VE can make VMs from downloaded images: the API
// accepts the content "import" since 8.4 (pve-storage 8.3.4).
func (c *StorageClient) CheckImport() error { return checkImport(c.client.Version()) }

func checkImport(v Version) error {
	if !v.Before(8, 4) {
		return nil
	}
	return fmt.Errorf("proxmox VE %s cannot import an image that it has downloaded; 8.4 and later can\n"+
		"  upgrade the host (pve8to9, then apt full-upgrade), or make a template by hand and name it under image.template", v.Version)
}

// Fetch makes Proxmox download an image, verify its checksum and keep it for import. It
// returns the volume's id. It verifies an existing file of that name and uses it if it is the
// image; then the host needs no internet access. Any other file of that name is left alone and is
// an error. FetchImage waits for a download that an earlier process has started, and hosts that
// share a storage download once.
func (c *StorageClient) Fetch(ctx context.Context, host, storage string, image Image) (string, error) {
	if err := errors.Join(image.check(), c.CheckImport()); err != nil {
		return "", err
	}
	place := host
	shared, err := c.otherHostsWith(ctx, host, storage)
	if err != nil {
		return "", err
	}
	if len(shared) > 0 {
		place = "" // one lock for all hosts that see it
	}
	release, err := c.locks.allocate(ctx, place, storage, true)
	if err != nil {
		return "", err
	}
	defer release()
	for _, other := range append(shared, host) {
		if _, err := c.pve.WaitForEarlierTasks(ctx, other); err != nil {
			return "", err
		}
	}
	id, err := c.Image(ctx, host, storage, image.FileName)
	if err != nil {
		return "", err
	}
	if id != "" {
		converge.Progressf(ctx, "checking %s, which exists already", image.FileName)
	} else {
		converge.Progressf(ctx, "downloading %s", image.URL)
	}
	if err := c.download(ctx, host, storage, image, id != ""); err != nil {
		return "", c.explainStorage(ctx, host, storage, importContent, image.explain(host, storage, err))
	}
	return storage + ":" + importContent + "/" + image.FileName, nil
}

// download requests the image. If a file of that name exists, Proxmox downloads nothing but
// compares its checksum (PVE::Tools::download_file_from_url). Until a download is complete and
// verified it has another name, which does not count as an image.
func (c *StorageClient) download(ctx context.Context, host, storage string, image Image, there bool) error {
	path := api.NodePath(host, "storage", storage, "download-url")
	algorithm, sum := "sha256", image.SHA256
	if image.SHA512 != "" {
		algorithm, sum = "sha512", image.SHA512
	}
	present := func() (bool, error) {
		id, err := c.Image(ctx, host, storage, image.FileName)
		return id != "" && !there, err
	}
	return c.pve.Retry(ctx, host, image.FileName, func() error {
		return c.pve.DoWithProgress(ctx, http.MethodPost, path, api.Params{
			"content": importContent, "url": image.URL, "filename": image.FileName,
			"checksum": strings.ToLower(sum), "checksum-algorithm": algorithm,
		}, "downloading "+image.name())
	}, present)
}

// name returns the file name in the URL.
func (i Image) name() string { return i.URL[strings.LastIndexByte(i.URL, '/')+1:] }

// otherHostsWith returns the other hosts that see a storage, sorted; none if it belongs to its host
// alone.
func (c *StorageClient) otherHostsWith(ctx context.Context, host, storage string) ([]string, error) {
	storages, err := c.List(ctx, host)
	if err != nil {
		return nil, err
	}
	shared := false
	for _, s := range storages {
		shared = shared || s.Name == storage && s.Shared
	}
	if !shared {
		return nil, nil
	}
	hosts, err := c.client.Hosts.List(ctx)
	var others []string
	for _, h := range hosts {
		if h.Online && h.Name != host {
			others = append(others, h.Name)
		}
	}
	return others, err
}

// explain says why a download failed and what to do.
func (i Image) explain(host, storage string, err error) error {
	failure := fmt.Errorf("download %s to %s: %w", i.URL, storage, err)
	var task *api.TaskError
	if errors.As(err, &task) {
		if cure := i.cure(task.Exit, host, storage); cure != "" {
			return fmt.Errorf("%w\n  %s", failure, cure)
		}
	}
	return failure
}

var (
	// Proxmox reports wget's last line, or its exit status if that line is empty (run_command in
	// PVE::Tools): 4 network, 5 certificate, 8 an error response.
	untrustedText   = regexp.MustCompile(`(?i)--no-check-certificate|cannot verify|exit code 5\b`)
	refusalText     = regexp.MustCompile(`(?i)ERROR \d{3}|exit code 8\b`)
	unreachableText = regexp.MustCompile(`(?i)unable to resolve|name resolution|connection refused|timed out|no route to host|network is unreachable|giving up|exit code 4\b`)
)

// cure says what to do about the exit status of a download, "" about one that is not known. Nothing
// else parses Proxmox's messages about downloads.
func (i Image) cure(exit, host, storage string) string {
	byHand := fmt.Sprintf("download it on another machine (curl -L -o %s %s), then upload that file\n"+
		"  to %s in the web interface (Import), or serve it from a machine that %s reaches and write its address as image.url", i.FileName, i.URL, storage, host)
	differs := strings.Contains(exit, "checksum mismatch: got")
	switch {
	case differs && strings.Contains(exit, "aborting"):
		return fmt.Sprintf("%s:%s/%s is another or an incomplete file and was not changed. If nothing uses it, run on %s: pvesm free %s:%s/%s",
			storage, importContent, i.FileName, host, printable.Word(storage), printable.Word(importContent), printable.Word(i.FileName))
	case differs:
		return "the downloaded image does not match its checksum: images of a release change, so use a dated address, " +
			"or the checksum from SHA256SUMS or SHA512SUMS beside it"
	case !strings.Contains(exit, "download failed"):
	case untrustedText.MatchString(exit):
		return fmt.Sprintf("%s does not trust the server's certificate: is its clock right, ca-certificates up to date, a proxy in between?\n  Else %s", host, byHand)
	case refusalText.MatchString(exit):
		return "the server does not have the file, or refuses it: is image.url right? distributors remove dated images after a while"
	case unreachableText.MatchString(exit):
		return fmt.Sprintf("%s does not reach the server (name, route or firewall; a proxy is set under Datacenter, Options).\n  Else %s", host, byHand)
	}
	return ""
}
