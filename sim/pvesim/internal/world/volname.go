package world

import (
	"path"
	"regexp"
	"strings"

	"github.com/cps-gpu/homelab/sim/pvesim/internal/answer"
)

// VolumeParts is what the name of a volume on a directory says of it.
type VolumeParts struct {
	Content string
	Owner   string // VMID, empty for a file
	Format  string
}

var (
	imageOfClone = regexp.MustCompile(`^(\d+)/(\S+)/(\d+)/(\S+)$`)
	imageName    = regexp.MustCompile(`^(\d+)/(\S+)$`)
	imageFile    = regexp.MustCompile(`^[^/\s]+\.(raw|qcow2|vmdk|subvol)$`)
	isoName      = regexp.MustCompile(`(?i)^iso/[^/]+\.(iso|img)$`)
	templateName = regexp.MustCompile(`(?i)^vztmpl/[^/]+\.(tar|tar\.(gz|xz|zst|bz2))$`)
	archiveName  = regexp.MustCompile(`^backup/([^/]+\.(tgz|(tar|vma)(\.(gz|lzo|zst))?))$`)
	archiveOwner = regexp.MustCompile(`^vzdump-(?:openvz|lxc|qemu)-(\d+)-.+`)
	snippetName  = regexp.MustCompile(`^snippets/[^/]+$`)
	packedName   = regexp.MustCompile(`^import/[ a-zA-Z0-9.+=_-]+\.ova/[ a-zA-Z0-9.+=_-]+\.(qcow2|raw|vmdk)$`)
	importName   = regexp.MustCompile(`^import/[ a-zA-Z0-9.+=_-]+\.(ova|ovf|qcow2|raw|vmdk)$`)
)

// ParseVolume reads the name of a volume (PVE/Storage/Plugin.pm, parse_volname).
// Names on what is not a directory are images of machines.
func (st *Storage) ParseVolume(name string) (VolumeParts, error) {
	if !st.FileBased() {
		v := VolumeParts{Content: "images", Format: "raw"}
		if m := regexp.MustCompile(`^(?:vm|base|subvol)-(\d+)-\S+$`).FindStringSubmatch(name); m != nil {
			v.Owner = m[1]
		}
		return v, nil
	}
	if m := imageOfClone.FindStringSubmatch(name); m != nil {
		if _, err := ImageFormat(m[2]); err != nil {
			return VolumeParts{}, err
		}
		format, err := ImageFormat(m[4])
		return VolumeParts{"images", m[3], format}, err
	}
	if m := imageName.FindStringSubmatch(name); m != nil {
		format, err := ImageFormat(m[2])
		return VolumeParts{"images", m[1], format}, err
	}
	if m := archiveName.FindStringSubmatch(name); m != nil {
		v := VolumeParts{Content: "backup", Format: "raw"}
		if owner := archiveOwner.FindStringSubmatch(m[1]); owner != nil {
			v.Owner = owner[1]
		}
		return v, nil
	}
	if m := packedName.FindStringSubmatch(name); m != nil {
		return VolumeParts{Content: "import", Format: "ova+" + m[1]}, nil
	}
	if m := importName.FindStringSubmatch(name); m != nil {
		return VolumeParts{Content: "import", Format: m[1]}, nil
	}
	for content, pattern := range map[string]*regexp.Regexp{"iso": isoName, "vztmpl": templateName, "snippets": snippetName} {
		if pattern.MatchString(name) {
			if ext := strings.TrimPrefix(path.Ext(name), "."); content == "vztmpl" && ext != "tar" {
				return VolumeParts{Content: content, Format: "t" + ext}, nil
			}
			return VolumeParts{Content: content, Format: "raw"}, nil
		}
	}
	return VolumeParts{}, answer.Die("unable to parse directory volume name '%s'", name)
}

// ImageFormat is the format that the name of an image ends in (parse_name_dir).
func ImageFormat(name string) (string, error) {
	if strings.HasPrefix(name, "snap-") && strings.HasSuffix(name, ".qcow2") {
		return "", answer.Die("'%s' is a snapshot filename, not a volume!", name)
	}
	m := imageFile.FindStringSubmatch(name)
	if m == nil {
		return "", answer.Die("unable to parse volume filename '%s'", name)
	}
	return m[1], nil
}

// IsImage tells whether a volume ID is of a machine's disk.
func (h *Host) IsImage(volid string) bool {
	st, rest := h.Volume(volid)
	if st == nil {
		return false
	}
	parts, err := st.ParseVolume(rest)
	return err == nil && parts.Content == "images"
}
