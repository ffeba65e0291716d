package disk

import "strings"

// archiveMagic begins every archive of ar, as which Debian's packages are made (deb(5)).
const archiveMagic = "!<arch>\n"

// Archive is the content of a package's file, which a repository has by this name.
func Archive(file string) []byte { return []byte(archiveMagic + "pvesim " + file + "\n") }

// ArchiveOf is the package that a file has. It is read from the file's name, NAME_VERSION_ARCHITECTURE.deb, so a real
// package will do too.
func ArchiveOf(file string, data []byte) (name, version string, ok bool) {
	parts := strings.Split(strings.TrimSuffix(file, ".deb"), "_")
	if !strings.HasPrefix(string(data), archiveMagic) || !strings.HasSuffix(file, ".deb") || len(parts) != 3 {
		return "", "", false
	}
	return parts[0], strings.ReplaceAll(parts[1], "%3a", ":"), true
}
