package pvesim

import (
	"path"
	"regexp"
	"strings"
)

// volumeParts is what the name of a volume on a directory says of it.
type volumeParts struct {
	content string
	owner   string // VMID, empty for a file
	format  string
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

// parseVolume reads the name of a volume (PVE/Storage/Plugin.pm, parse_volname).
// Names on what is not a directory are images of machines.
func (st *storage) parseVolume(name string) (volumeParts, error) {
	if !st.fileBased() {
		v := volumeParts{content: "images", format: "raw"}
		if m := regexp.MustCompile(`^(?:vm|base|subvol)-(\d+)-\S+$`).FindStringSubmatch(name); m != nil {
			v.owner = m[1]
		}
		return v, nil
	}
	if m := imageOfClone.FindStringSubmatch(name); m != nil {
		if _, err := imageFormat(m[2]); err != nil {
			return volumeParts{}, err
		}
		format, err := imageFormat(m[4])
		return volumeParts{"images", m[3], format}, err
	}
	if m := imageName.FindStringSubmatch(name); m != nil {
		format, err := imageFormat(m[2])
		return volumeParts{"images", m[1], format}, err
	}
	if m := archiveName.FindStringSubmatch(name); m != nil {
		v := volumeParts{content: "backup", format: "raw"}
		if owner := archiveOwner.FindStringSubmatch(m[1]); owner != nil {
			v.owner = owner[1]
		}
		return v, nil
	}
	if m := packedName.FindStringSubmatch(name); m != nil {
		return volumeParts{content: "import", format: "ova+" + m[1]}, nil
	}
	if m := importName.FindStringSubmatch(name); m != nil {
		return volumeParts{content: "import", format: m[1]}, nil
	}
	for content, pattern := range map[string]*regexp.Regexp{"iso": isoName, "vztmpl": templateName, "snippets": snippetName} {
		if pattern.MatchString(name) {
			if ext := strings.TrimPrefix(path.Ext(name), "."); content == "vztmpl" && ext != "tar" {
				return volumeParts{content: content, format: "t" + ext}, nil
			}
			return volumeParts{content: content, format: "raw"}, nil
		}
	}
	return volumeParts{}, die("unable to parse directory volume name '%s'", name)
}

// imageFormat is the format that the name of an image ends in (parse_name_dir).
func imageFormat(name string) (string, error) {
	if strings.HasPrefix(name, "snap-") && strings.HasSuffix(name, ".qcow2") {
		return "", die("'%s' is a snapshot filename, not a volume!", name)
	}
	m := imageFile.FindStringSubmatch(name)
	if m == nil {
		return "", die("unable to parse volume filename '%s'", name)
	}
	return m[1], nil
}

// isImage tells whether a volume ID is of a machine's disk.
func (h *host) isImage(volid string) bool {
	st, rest := h.volume(volid)
	if st == nil {
		return false
	}
	parts, err := st.parseVolume(rest)
	return err == nil && parts.content == "images"
}
