package pvesim

import "strconv"

// keepUnused notes a volume that the VM has and does not use, and returns the key.
func (v *vm) keepUnused(volid string) string {
	free := ""
	for i := 255; i >= 0; i-- {
		switch k := "unused" + strconv.Itoa(i); v.conf[k] {
		case volid:
			return ""
		case "":
			free = k
		}
	}
	if free != "" {
		v.set(free, volid)
	}
	return free
}
