package harvester

import (
	"context"
	"fmt"
	"slices"
	"strings"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"

	"github.com/cps-gpu/homelab/converge"
)

// ImageSpec is an image that Harvester downloads. Clusters share it.
type ImageSpec struct {
	Name     string // NAMESPACE/NAME, or NAME in the client's namespace
	URL      string
	Checksum string // SHA-512 of what is behind the URL, in hexadecimal, as Longhorn compares it; empty: not compared
}

// Image is a VirtualMachineImage as it was read.
type Image struct {
	Name         string // NAMESPACE/NAME
	URL          string
	Checksum     string
	Backend      string // backingimage or cdi
	StorageClass string // of the volumes made from it
	Ready        bool   // it is imported
	Failed       string // why it will not be
	Progress     int    // in percent
	Ours         bool   // a program like this one has made it

	object *unstructured.Unstructured
}

// imageObject has the fields of a VirtualMachineImage that matter.
type imageObject struct {
	metav1.ObjectMeta `json:"metadata"`

	Spec struct {
		URL      string `json:"url"`
		Checksum string `json:"checksum"`
		Backend  string `json:"backend"`
	} `json:"spec"`
	Status struct {
		Progress         int         `json:"progress"`
		StorageClassName string      `json:"storageClassName"`
		Conditions       []condition `json:"conditions"`
	} `json:"status"`
}

// imageMark is the mark of images, which belong to no cluster.
const imageMark = "image"

// Image returns an image, or nil if there is none.
func (c *Client) Image(ctx context.Context, name string) (*Image, error) {
	namespace, short, _ := strings.Cut(c.qualify(name), "/")
	u, err := c.read(ctx, imageKind(), namespace, short)
	if u == nil || err != nil {
		return nil, err
	}
	return readImage(u)
}

func readImage(u *unstructured.Unstructured) (*Image, error) {
	o, err := decode[imageObject](u)
	if err != nil {
		return nil, err
	}
	i := &Image{Name: o.Namespace + "/" + o.Name, URL: o.Spec.URL, Checksum: o.Spec.Checksum, Backend: o.Spec.Backend, Progress: o.Status.Progress,
		StorageClass: o.Status.StorageClassName, Ours: o.Annotations[markAnnotation] == imageMark, object: u}
	i.Ready = find(o.Status.Conditions, "Imported").Status == metav1.ConditionTrue && i.StorageClass != ""
	if f := find(o.Status.Conditions, "RetryLimitExceeded"); f.Status == metav1.ConditionTrue {
		i.Failed = f.Message
		if imported := find(o.Status.Conditions, "Imported"); imported.Message != "" {
			i.Failed = imported.Message
		}
	}
	return i, nil
}

// EnsureImage lets Harvester download an image, unless it is there, and returns it as it is now: the caller asks
// again until it is ready. An image of somebody else's with that name is used if it has the same URL.
func (c *Client) EnsureImage(ctx context.Context, s ImageSpec) (*Image, error) {
	i, err := c.Image(ctx, s.Name)
	switch {
	case err != nil:
		return nil, err
	case i != nil && i.URL != s.URL:
		return nil, converge.Permanent(fmt.Errorf("image %s is from %s, not %s: give this one another name, as an image never changes", i.Name, i.URL, s.URL))
	case i != nil && s.Checksum != "" && !strings.EqualFold(i.Checksum, s.Checksum):
		return nil, converge.Permanent(fmt.Errorf("image %s has another checksum: give this one another name, as an image never changes", i.Name))
	case i != nil && i.Failed != "":
		return i, converge.Permanent(fmt.Errorf("image %s cannot be imported: %s\n  remove it and run it again", i.Name, i.Failed))
	case i != nil:
		return i, nil
	}
	namespace, name, _ := strings.Cut(c.qualify(s.Name), "/")
	u := imageKind().object(namespace, name)
	u.SetAnnotations(map[string]string{markAnnotation: imageMark})
	// The label is what the webhook compares names by (pkg/image/common/validator.go).
	u.SetLabels(map[string]string{"harvesterhci.io/imageDisplayName": name})
	if err := set(u, map[string]any{"displayName": name, "sourceType": "download", "url": s.URL, "checksum": strings.ToLower(s.Checksum),
		"retry": int64(3), "backend": "backingimage"}, "spec"); err != nil {
		return nil, err
	}
	if err := c.kube.Create(ctx, u); err != nil {
		return nil, err
	}
	return c.Image(ctx, s.Name)
}

// RemoveImage removes an image that is ours and that no volume is made from. It reports whether it did.
func (c *Client) RemoveImage(ctx context.Context, name string) (bool, error) {
	i, err := c.Image(ctx, name)
	if err != nil || i == nil || !i.Ours {
		return false, err
	}
	for _, k := range []kind{volumeKind(), vmKind()} {
		all, err := c.list(ctx, k, "")
		if err != nil {
			return false, err
		}
		if slices.ContainsFunc(all, func(u unstructured.Unstructured) bool { return usesImage(&u, i.Name) }) {
			return false, nil
		}
	}
	return true, c.kube.DeleteExact(ctx, i.object, true)
}

// usesImage reports whether a volume is made from an image, or will be for a machine.
func usesImage(u *unstructured.Unstructured, image string) bool {
	if u.GetKind() != vmKind().name {
		return u.GetAnnotations()[imageAnnotation] == image
	}
	templates, err := claimTemplates(u.GetAnnotations()[templatesAnnotation])
	return err != nil || slices.ContainsFunc(templates, func(t claimTemplate) bool { return t.Metadata.Annotations[imageAnnotation] == image })
}

// String names the image.
func (i *Image) String() string { return "image " + i.Name }

// Waiting says what the image lacks to be used; empty if nothing.
func (i *Image) Waiting() string {
	switch {
	case i == nil:
		return "it is not there"
	case i.Ready:
		return ""
	}
	return fmt.Sprintf("Harvester has downloaded %d %% of it", i.Progress)
}
