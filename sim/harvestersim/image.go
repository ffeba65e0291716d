package harvestersim

import (
	"context"
	"errors"
	"fmt"
	"strings"

	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"

	"github.com/cps-gpu/homelab/sim/guest"
)

// importImages downloads images, some percent at each look (pkg/image/backingimage): a storage class for volumes
// that are made from one is there at once, and the image is imported when its checksum has been compared.
func (s *Sim) importImages(ctx context.Context) {
	for _, u := range s.list(ctx, images()) {
		uid := string(u.GetUID())
		class := "lh-" + uid
		switch {
		case u.GetDeletionTimestamp() != nil:
			if c := s.get(ctx, classes(), "", class); c != nil {
				s.remove(ctx, classes(), c)
			}
			u.SetFinalizers(nil)
			s.update(ctx, images(), u)
		case hasCondition(u, "Imported"), hasCondition(u, "RetryLimitExceeded"):
		case textAt(u.Object, "status", "storageClassName") == "":
			if s.get(ctx, classes(), "", class) == nil {
				_ = s.create(ctx, classes(), storageClass(class, false)) // the next look finds it
			}
			u.SetFinalizers([]string{"wrangler.cattle.io/vm-image-controller"})
			setStatus(u, class, "storageClassName")
			setStatus(u, int64(0), "progress")
			setCondition(u, "Initialized", true, "", "")
			s.update(ctx, images(), u)
		default:
			s.download(ctx, u)
		}
	}
}

func (s *Sim) download(ctx context.Context, u *unstructured.Unstructured) {
	progress, _ := fieldAt(u.Object, "status", "progress").(int64)
	if progress < 90 {
		setStatus(u, progress+30, "progress")
		s.update(ctx, images(), u)
		return
	}
	content, err := s.cfg.Internet(textAt(u.Object, "spec", "url"))
	if want := textAt(u.Object, "spec", "checksum"); err == nil && want != "" && !strings.EqualFold(guest.SHA512(content), want) {
		err = fmt.Errorf("the expected checksum %s doesn't match the file actual checksum %s", want, guest.SHA512(content))
	}
	var disk *guest.Disk
	if err == nil {
		if disk, err = guest.OpenImage(content); err != nil {
			disk, err = guest.NewDisk(), nil // Longhorn imports anything
		}
	}
	if err != nil {
		setStatus(u, int64(4), "failed")
		setCondition(u, "Imported", false, "ImportFailed", errors.Unwrap(fmt.Errorf("%w", err)).Error())
		setCondition(u, "RetryLimitExceeded", true, "", "VMImage has been retried for 3 times")
		s.update(ctx, images(), u)
		return
	}
	s.mu.Lock()
	s.images[string(u.GetUID())] = disk
	s.mu.Unlock()
	setStatus(u, int64(100), "progress")
	setStatus(u, int64(len(content)), "size")
	setCondition(u, "Imported", true, "Imported", "")
	s.update(ctx, images(), u)
}

// bindVolumes is Longhorn: it makes what claims ask for, and deletes what nobody claims any more.
func (s *Sim) bindVolumes(ctx context.Context) {
	there := map[string]bool{}
	for _, pv := range s.list(ctx, storages()) {
		there[pv.GetName()] = true
		if textAt(pv.Object, "status", "phase") == "Released" {
			s.mu.Lock()
			delete(s.disks, strings.TrimPrefix(pv.GetName(), "pvc-"))
			s.mu.Unlock()
			s.remove(ctx, storages(), pv)
		}
	}
	for _, c := range s.list(ctx, volumes()) {
		name := "pvc-" + string(c.GetUID())
		class := textAt(c.Object, "spec", "storageClassName")
		if there[name] || c.GetDeletionTimestamp() != nil || s.get(ctx, classes(), "", class) == nil {
			continue
		}
		s.fill(ctx, c)
		_ = s.create(ctx, storages(), object{"apiVersion": "v1", "kind": "PersistentVolume",
			"metadata": object{"name": name, "annotations": object{"pv.kubernetes.io/provisioned-by": longhorn}},
			"spec": object{"capacity": fieldAt(c.Object, "spec", "resources", "requests"), "accessModes": listAt(c.Object, "spec", "accessModes"),
				"volumeMode": "Block", "persistentVolumeReclaimPolicy": "Delete", "storageClassName": class,
				"claimRef": object{"apiVersion": "v1", "kind": "PersistentVolumeClaim", "namespace": c.GetNamespace(), "name": c.GetName(), "uid": string(c.GetUID())},
				"csi":      object{"driver": longhorn, "volumeHandle": name}}})
	}
}

// fill writes the image of its storage class to a new volume; any other is empty.
func (s *Sim) fill(_ context.Context, c *unstructured.Unstructured) {
	s.mu.Lock()
	defer s.mu.Unlock()
	uid := string(c.GetUID())
	if s.disks[uid] != nil {
		return
	}
	s.disks[uid] = guest.NewDisk()
	if base := s.images[strings.TrimPrefix(textAt(c.Object, "spec", "storageClassName"), "lh-")]; base != nil {
		s.disks[uid] = base.Clone()
	}
}
