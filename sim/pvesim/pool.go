package pvesim

// pool is a named group of machines; who is in it stands in the machines.
type pool struct {
	comment  string
	storages []string
	absent   map[int]bool // machines that are members and that there are none of
}

// memberOf returns the pool that a VMID is in, of a machine that there is or not.
func (s *state) memberOf(vmid int) string {
	if v := s.vms[vmid]; v != nil {
		return v.pool
	}
	for id, p := range s.pools {
		if p.absent[vmid] {
			return id
		}
	}
	return ""
}
