package plugin

import (
	"fmt"
	"net"
	"slices"

	"github.com/containernetworking/cni/pkg/skel"
	"github.com/containernetworking/cni/pkg/types"
	current "github.com/containernetworking/cni/pkg/types/100"
	"github.com/containernetworking/cni/pkg/version"

	agentv1 "quiver/kubernetes/internal/api/agentv1"
)

// resultOf words what a pod has: its interface with addresses and default routes, and its memif, which is no device of the kernel,
// as an interface with a socket. The addresses, which it has too, stand there once.
func resultOf(args *skel.CmdArgs, response *agentv1.AddResponse) (*current.Result, error) {
	result := &current.Result{CNIVersion: current.ImplementedSpecVersion}
	result.Interfaces = append(result.Interfaces, &current.Interface{Name: args.IfName, Mtu: int(response.Mtu), Sandbox: args.Netns})
	networks, err := addIPs(result, response.Addresses)
	if err != nil {
		return nil, err
	}
	for _, network := range networks {
		everything := net.IPNet{IP: make(net.IP, len(network.IP)), Mask: make(net.IPMask, len(network.Mask))}
		result.Routes = append(result.Routes, &types.Route{Dst: everything})
	}
	if memif := response.Memif; memif != nil {
		result.Interfaces = append(result.Interfaces, &current.Interface{
			Name: "memif-" + args.IfName, Mtu: int(response.Mtu), Sandbox: args.Netns, SocketPath: memif.Socket,
		})
	}
	return result, nil
}

// believed are the addresses that the interface has, and the destinations of the pod's routes, by the result that the runtime has kept of ADD, maybe
// with those of plugins behind us.
func (c *Config) believed(args *skel.CmdArgs) (addresses, routes []string, err error) {
	wrong := func(format string, arguments ...any) error {
		return types.NewError(types.ErrInvalidNetworkConfig, fmt.Sprintf("network %s: CHECK: "+format, append([]any{c.Name}, arguments...)...), "let the runtime make the pod anew: what it has kept of it is no result of ADD")
	}
	if c.RawPrevResult == nil {
		return nil, nil, wrong("prevResult is missing")
	}
	if err := version.ParsePrevResult(&c.PluginConf); err != nil {
		return nil, nil, wrong("prevResult: %v", err)
	}
	result, err := current.NewResultFromResult(c.PrevResult)
	if err != nil {
		return nil, nil, wrong("prevResult: %v", err)
	}
	at := slices.IndexFunc(result.Interfaces, func(one *current.Interface) bool { return one.Name == args.IfName && one.Sandbox == args.Netns })
	if at < 0 {
		return nil, nil, types.NewError(errAmiss, fmt.Sprintf("by the runtime's result there is no interface %s in %s", args.IfName, args.Netns), "let the runtime make the pod anew")
	}
	for _, ip := range result.IPs {
		if ip.Interface != nil && *ip.Interface == at {
			addresses = append(addresses, ip.Address.IP.String())
		}
	}
	for _, route := range result.Routes {
		routes = append(routes, route.Dst.String())
	}
	return addresses, routes, nil
}

// addIPs gives addresses to the last interface.
func addIPs(result *current.Result, addresses []string) ([]*net.IPNet, error) {
	var networks []*net.IPNet
	for _, text := range addresses {
		address, network, err := net.ParseCIDR(text)
		if err != nil {
			return nil, fmt.Errorf("quiver-agent answered with address %q: %w", text, err)
		}
		if short := address.To4(); short != nil {
			address = short
		}
		result.IPs = append(result.IPs, &current.IPConfig{
			Interface: current.Int(len(result.Interfaces) - 1),
			Address:   net.IPNet{IP: address, Mask: network.Mask},
		})
		networks = append(networks, network)
	}
	return networks, nil
}
