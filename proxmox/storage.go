package proxmox

import (
	"context"
	"errors"
	"fmt"
	"net/http"
	"net/url"
	"regexp"
	"slices"
	"strings"

	"github.com/cps-gpu/homelab/converge/progress"
)

// Volume is a file or disk on a storage.
type Volume struct {
	ID      string // local:iso/seed.iso
	Content string // iso, import, images, …
	Format  string
	Size    Size
	VMID    int    // the VM that it belongs to, 0 when to none
	Parent  string // of a linked clone: what it hangs on
}

// Name returns what follows the last slash of the id.
func (v Volume) Name() string { return v.ID[strings.LastIndexAny(v.ID, ":/")+1:] }

// Volumes returns what is on a storage, of one kind of content or of all. An
// empty list may also mean that the token may not look: see
// Datastore.Audit in [Client.Storages].
func (c *Client) Volumes(ctx context.Context, host, storage, content string) ([]Volume, error) {
	query := url.Values{}
	if content != "" {
		query.Set("content", content)
	}
	type entry struct {
		VolID   string   `json:"volid"`
		Content string   `json:"content"`
		Format  string   `json:"format"`
		Size    flexInt  `json:"size"`
		VMID    flexText `json:"vmid"`
		Parent  string   `json:"parent"`
	}
	all, err := look[[]entry](ctx, c, nodePath(host, "storage", storage, "content"), query)
	if err != nil {
		return nil, err
	}
	out := make([]Volume, len(all))
	for i, e := range all {
		out[i] = Volume{ID: e.VolID, Content: e.Content, Format: e.Format, Size: Size(e.Size), VMID: number(string(e.VMID), 0), Parent: e.Parent}
	}
	slices.SortFunc(out, func(a, b Volume) int { return strings.Compare(a.ID, b.ID) })
	return out, nil
}

// HasClones reports whether linked clones hang on a template's disks.
func (c *Client) HasClones(ctx context.Context, template *Summary) (bool, error) {
	vm, err := c.read(ctx, template.Host, template.VMID, false)
	if errors.Is(err, ErrNotFound) {
		return false, nil
	}
	if err != nil {
		return false, err
	}
	base := fmt.Sprintf("base-%d-disk-", template.VMID)
	for _, storage := range vm.storagesInUse() {
		all, err := c.Volumes(ctx, template.Host, storage, "images")
		if err != nil {
			return false, err
		}
		for _, v := range all {
			// Files are linked by path, the volume's id shows it; other storages tell the parent.
			if v.VMID != template.VMID && (strings.Contains(v.Parent, base) || strings.Contains(v.ID, base)) {
				return true, nil
			}
		}
	}
	return false, nil
}

// Storage is a storage as a host sees it.
type Storage struct {
	Name    string
	Type    string // dir, lvmthin, zfspool, nfs, …
	Content []string
	Shared  bool
	Active  bool
	Total   Size
	Free    Size
}

// Storages returns the storages of a host that the token may see (Datastore.Audit).
func (c *Client) Storages(ctx context.Context, host string) ([]Storage, error) {
	type entry struct {
		Storage string   `json:"storage"`
		Type    string   `json:"type"`
		Content string   `json:"content"`
		Shared  flexBool `json:"shared"`
		Active  flexBool `json:"active"`
		Total   flexInt  `json:"total"`
		Avail   flexInt  `json:"avail"`
	}
	all, err := look[[]entry](ctx, c, nodePath(host, "storage"), nil)
	if err != nil {
		return nil, err
	}
	out := make([]Storage, len(all))
	for i, e := range all {
		content := strings.Split(e.Content, ",")
		slices.Sort(content)
		out[i] = Storage{Name: e.Storage, Type: e.Type, Content: content, Shared: bool(e.Shared), Active: bool(e.Active), Total: Size(e.Total), Free: Size(e.Avail)}
	}
	return out, nil
}

// DeleteVolume deletes a file or disk. One that is not there is no error.
func (c *Client) DeleteVolume(ctx context.Context, host, id string) error {
	storage, _, found := strings.Cut(id, ":")
	if !found {
		return fmt.Errorf("volume %q: write storage:path", id)
	}
	path := nodePath(host, "storage", storage, "content", id)
	var answer *string
	err := c.call(ctx, http.MethodDelete, path, nil, &answer)
	if errors.Is(err, ErrNotFound) {
		return nil
	}
	if err != nil || answer == nil || *answer == "" {
		return err
	}
	upid, err := ParseUPID(*answer)
	if err != nil {
		return err
	}
	defer c.glances.forget(path)
	return c.wait(ctx, upid)
}

// Image is a disk image on the web.
type Image struct {
	URL      string
	SHA256   string
	FileName string // what it is called on the storage; ends in .qcow2, .raw, .vmdk or .ova
}

var (
	imageName  = regexp.MustCompile(`^[a-zA-Z0-9][a-zA-Z0-9_.-]*\.(qcow2|raw|vmdk|ova)$`)
	sha256Text = regexp.MustCompile(`^[0-9a-fA-F]{64}$`)
)

func (i Image) check() error {
	switch {
	case !imageName.MatchString(i.FileName):
		return fmt.Errorf("image name %q: Proxmox imports files that end in .qcow2, .raw, .vmdk or .ova; an Ubuntu .img is qcow2 in truth: call it .qcow2", i.FileName)
	case !sha256Text.MatchString(i.SHA256):
		return fmt.Errorf("image %s: %q is not a SHA-256 checksum", i.URL, i.SHA256)
	case !strings.HasPrefix(i.URL, "https://") && !strings.HasPrefix(i.URL, "http://"):
		return fmt.Errorf("image address %q: Proxmox downloads http and https", i.URL)
	}
	return nil
}

// ImageVolume returns the volume id of an image on a storage, "" when it is not there.
func (c *Client) ImageVolume(ctx context.Context, host, storage, fileName string) (string, error) {
	return c.volumeNamed(ctx, host, storage, "import", fileName)
}

// ISOVolume returns the volume id of an ISO on a storage, "" when it is not there.
func (c *Client) ISOVolume(ctx context.Context, host, storage, fileName string) (string, error) {
	return c.volumeNamed(ctx, host, storage, "iso", fileName)
}

func (c *Client) volumeNamed(ctx context.Context, host, storage, content, name string) (string, error) {
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

// FetchImage makes Proxmox download an image, check its sum and keep it for
// import, unless it has it already. It returns the volume's id.
func (c *Client) FetchImage(ctx context.Context, host, storage string, image Image) (string, error) {
	if err := image.check(); err != nil {
		return "", err
	}
	if id, err := c.ImageVolume(ctx, host, storage, image.FileName); err != nil || id != "" {
		return id, err
	}
	progress.Say(ctx, "%s downloads %s", host, image.URL)
	release, err := c.storages.allocate(ctx, host, storage, true)
	if err != nil {
		return "", err
	}
	defer release()
	path := nodePath(host, "storage", storage, "download-url")
	present := func() (bool, error) {
		c.glances.forget(path)
		id, err := c.ImageVolume(ctx, host, storage, image.FileName)
		return id != "", err
	}
	err = c.settle(ctx, host, image.FileName, func() error {
		return c.do(ctx, http.MethodPost, path, params{
			"content": "import", "url": image.URL, "filename": image.FileName,
			"checksum": strings.ToLower(image.SHA256), "checksum-algorithm": "sha256",
		})
	}, present)
	if err != nil {
		return "", c.explainStorage(ctx, host, storage, "import", fmt.Errorf("download %s to %s: %w", image.URL, storage, err))
	}
	return storage + ":import/" + image.FileName, nil
}

// explainStorage adds what a storage cannot do, if that is why err happened.
func (c *Client) explainStorage(ctx context.Context, host, storage, content string, err error) error {
	if ctx.Err() != nil {
		return err
	}
	all, lookErr := c.Storages(ctx, host)
	if lookErr != nil {
		return err
	}
	for _, s := range all {
		if s.Name != storage {
			continue
		}
		if !slices.Contains(s.Content, content) {
			return fmt.Errorf("%w\n  storage %s does not take %s; let it: pvesm set %s --content %s", err, storage, content, storage,
				strings.Join(append(slices.Clone(s.Content), content), ","))
		}
		return err
	}
	return fmt.Errorf("%w\n  %s has no storage %s, or the token may not see it (Datastore.Audit)", err, host, storage)
}
