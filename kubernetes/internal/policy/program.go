package policy

import (
	"context"
	"errors"
	"maps"
	"net/netip"
	"slices"
	"time"

	"google.golang.org/protobuf/proto"

	quiver "quiver/kubernetes/internal/api/quiverv1"
	"quiver/kubernetes/internal/dataplane"
)

const (
	// At most this long stands one change of the dataplane.
	applyTime = 30 * time.Second
	// And all that there is to do at a time: then it is begun anew.
	bringTime = 2 * time.Minute
	// Objects, and members of sets, of one batch: quiverd answers others in between.
	batch = 20_000
)

// everything marks what differs from what quiverd has.
func (w *wanted) everything(have *dataplane.FoundACLs) {
	mark(w.acls, have.ACLs, w.changedACLs)
	mark(w.endpoints, have.Endpoints, w.changedEndpoints)
	members := w.groups.sets
	for name, there := range have.Sets {
		changed := map[netip.Addr]bool{}
		for address := range there {
			if members[name][address] == 0 {
				changed[address] = true
			}
		}
		for address := range members[name] {
			if !there[address] {
				changed[address] = true
			}
		}
		if _, is := members[name]; len(changed) > 0 || !is {
			w.groups.changed[name] = changed
		}
	}
	for name, part := range members {
		if have.Sets[name] == nil {
			changed := map[netip.Addr]bool{}
			for address := range part {
				changed[address] = true
			}
			w.groups.changed[name] = changed
		}
	}
}

func mark[T proto.Message](wanted, have map[string]T, changed map[string]bool) {
	for name, one := range wanted {
		if there, is := have[name]; !is || !proto.Equal(one, there) {
			changed[name] = true
		}
	}
	for name := range have {
		if _, is := wanted[name]; !is {
			changed[name] = true
		}
	}
}

// piece is one object to be told, in an order in which everything is there before it is named, and is named no more before it goes.
type piece struct {
	upsert, delete *quiver.Config
	weight         int
	done           func()
}

// program has quiverd do what has changed. Lists that it refuses become ones that let nobody pass, and are told.
func (k *Keeper) program(ctx context.Context) (refused map[string]string, err error) {
	refused = map[string]string{}
	var some []piece
	weight := 0
	flush := func() error {
		defer func() { some, weight = nil, 0 }()
		return k.apply(ctx, some, refused)
	}
	for _, piece := range k.pieces() {
		if weight += piece.weight; weight > batch && len(some) > 0 {
			if err := flush(); err != nil {
				return refused, err
			}
			weight = piece.weight
		}
		some = append(some, piece)
	}
	return refused, flush()
}

// pieces is what is to do.
func (k *Keeper) pieces() (pieces []piece) {
	w, have := k.wanted, k.have
	var gone []piece
	for _, name := range slices.Sorted(maps.Keys(w.groups.changed)) {
		part, is := w.groups.sets[name]
		if !is {
			if have.Sets[name] != nil {
				gone = append(gone, piece{delete: &quiver.Config{AddressSets: []*quiver.AddressSet{{Name: name}}}, weight: 1, done: func() {
					delete(have.Sets, name)
					delete(w.groups.changed, name)
				}})
			} else {
				delete(w.groups.changed, name)
			}
			continue
		}
		pieces = append(pieces, k.set(name, part))
	}
	of := func(one *quiver.Acl) *quiver.Config { return &quiver.Config{Acls: []*quiver.Acl{one}} }
	lists, goneLists := differences(w.acls, have.ACLs, w.changedACLs, of, func(name string) *quiver.Config { return of(&quiver.Acl{Name: name}) })
	with := func(one *quiver.Endpoint) *quiver.Config { return &quiver.Config{Endpoints: []*quiver.Endpoint{one}} }
	endpoints, goneEndpoints := differences(w.endpoints, have.Endpoints, w.changedEndpoints, with, func(name string) *quiver.Config { return with(&quiver.Endpoint{Name: name}) })
	return slices.Concat(pieces, lists, endpoints, goneEndpoints, goneLists, gone)
}

// set is what is to be told of a set: its members, or those that come and go.
func (k *Keeper) set(name string, part map[netip.Addr]int) piece {
	there, changed := k.have.Sets[name], k.wanted.groups.changed[name]
	told := &quiver.AddressSet{Name: name}
	if there == nil {
		for address := range part {
			told.Members = append(told.Members, address.String())
		}
	} else {
		for address := range changed {
			if part[address] > 0 && !there[address] {
				told.Add = append(told.Add, address.String())
			} else if part[address] == 0 && there[address] {
				told.Remove = append(told.Remove, address.String())
			}
		}
	}
	for _, addresses := range [][]string{told.Members, told.Add, told.Remove} {
		slices.Sort(addresses)
	}
	done := func() {
		if there == nil {
			there = map[netip.Addr]bool{}
			k.have.Sets[name] = there
			changed = map[netip.Addr]bool{}
			for address := range part {
				changed[address] = true
			}
		}
		for address := range changed {
			if part[address] > 0 {
				there[address] = true
			} else {
				delete(there, address)
			}
		}
		delete(k.wanted.groups.changed, name)
	}
	if there != nil && told.Add == nil && told.Remove == nil {
		return piece{done: done}
	}
	return piece{upsert: &quiver.Config{AddressSets: []*quiver.AddressSet{told}}, weight: 1 + len(told.Members) + len(told.Add) + len(told.Remove), done: done}
}

// differences are the pieces of what comes and of what goes.
func differences[T proto.Message](wanted, have map[string]T, changed map[string]bool, of func(T) *quiver.Config, named func(string) *quiver.Config) (come, gone []piece) {
	for _, name := range slices.Sorted(maps.Keys(changed)) {
		one, is := wanted[name]
		there, has := have[name]
		switch {
		case is && !(has && proto.Equal(one, there)):
			come = append(come, piece{upsert: of(one), weight: 1 + proto.Size(one)/16, done: func() {
				have[name] = one
				delete(changed, name)
			}})
		case !is && has:
			gone = append(gone, piece{delete: named(name), weight: 1, done: func() {
				delete(have, name)
				delete(changed, name)
			}})
		default:
			delete(changed, name)
		}
	}
	return come, gone
}

// apply hands pieces over as one batch.
func (k *Keeper) apply(ctx context.Context, pieces []piece, refused map[string]string) error {
	ctx, cancel := context.WithTimeout(ctx, applyTime)
	defer cancel()
	upserts, deletes := &quiver.Config{}, []*quiver.ObjectRef(nil)
	for _, piece := range pieces {
		if piece.upsert != nil {
			proto.Merge(upserts, piece.upsert)
		}
		if piece.delete != nil {
			deletes = append(deletes, dataplane.Refs(piece.delete)...)
		}
	}
	if len(deletes) > 0 || proto.Size(upserts) > 0 {
		for {
			err := k.quiverd.Apply(ctx, upserts, deletes)
			if err == nil {
				break
			}
			var why *dataplane.RefusedError
			if !errors.As(err, &why) || !shutRefused(upserts, why, refused) {
				return err
			}
		}
	}
	for _, piece := range pieces {
		piece.done()
	}
	return nil
}

// shutRefused has lists that quiverd refuses let nobody pass, however many they are: they are their owners' fault, and others' must be in force
// nevertheless. False: there are none that weren't shut already.
func shutRefused(upserts *quiver.Config, why *dataplane.RefusedError, refused map[string]string) (shut bool) {
	reasons := map[string]string{}
	for _, one := range why.All() {
		reasons[one.Name] = one.Reason
	}
	for at, list := range upserts.Acls {
		reason, is := reasons[list.Name]
		if _, already := refused[list.Name]; !is || already {
			continue
		}
		refused[list.Name], shut = reason, true
		// Without rules it would leave what a tier says to the next one.
		upserts.Acls[at] = &quiver.Acl{Name: list.Name, DefaultAction: quiver.AclDefault_ACL_DEFAULT_DENY}
	}
	return shut
}
