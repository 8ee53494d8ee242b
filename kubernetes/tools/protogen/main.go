// Command protogen turns .proto files into Go without protoc: a compiler written in Go reads them, and the plugins that go.mod
// names as tools write the code.
//
//	protogen -out DIR -module MODULE ROOT=FOLDER:PACKAGE…
//
// compiles ROOT/FOLDER/*.proto into DIR/PACKAGE, imported as MODULE/PACKAGE.
package main

import (
	"bytes"
	"context"
	"errors"
	"flag"
	"fmt"
	"log"
	"os"
	"os/exec"
	"path/filepath"
	"strings"

	"github.com/bufbuild/protocompile"
	"google.golang.org/protobuf/proto"
	"google.golang.org/protobuf/reflect/protodesc"
	"google.golang.org/protobuf/reflect/protoreflect"
	"google.golang.org/protobuf/types/descriptorpb"
	"google.golang.org/protobuf/types/pluginpb"
)

var plugins = []string{"protoc-gen-go", "protoc-gen-go-grpc"}

func main() {
	log.SetFlags(0)
	log.SetPrefix("protogen: ")
	out := flag.String("out", ".", "directory under which packages are written")
	module := flag.String("module", "", "import path of that directory")
	flag.Parse()
	for _, argument := range flag.Args() {
		root, rest, rooted := strings.Cut(argument, "=")
		folder, pkg, named := strings.Cut(rest, ":")
		if !rooted || !named {
			log.Fatalf("%q: expected ROOT=FOLDER:PACKAGE", argument)
		}
		if err := generate(root, folder, filepath.Join(*out, pkg), *module+"/"+pkg); err != nil {
			log.Fatalf("%s: %v", argument, err)
		}
	}
}

// generate writes the code of root/folder/*.proto into directory.
func generate(root, folder, directory, importPath string) error {
	request, err := compile(root, folder, importPath)
	if err != nil {
		return err
	}
	if err := os.MkdirAll(directory, 0o755); err != nil {
		return err
	}
	for _, plugin := range plugins {
		files, err := run(plugin, request)
		if err != nil {
			return fmt.Errorf("%s: %w", plugin, err)
		}
		for _, file := range files {
			if err := os.WriteFile(filepath.Join(directory, filepath.Base(file.GetName())), []byte(file.GetContent()), 0o644); err != nil {
				return err
			}
		}
	}
	return nil
}

// compile reads the files and makes what plugins are asked.
func compile(root, folder, importPath string) (*pluginpb.CodeGeneratorRequest, error) {
	paths, err := filepath.Glob(filepath.Join(root, folder, "*.proto"))
	if err != nil {
		return nil, err
	}
	if len(paths) == 0 {
		return nil, errors.New("no .proto file there")
	}
	request := &pluginpb.CodeGeneratorRequest{}
	parameters := []string{"paths=source_relative"}
	for _, path := range paths {
		name := folder + "/" + filepath.Base(path)
		request.FileToGenerate = append(request.FileToGenerate, name)
		parameters = append(parameters, "M"+name+"="+importPath)
	}
	request.Parameter = proto.String(strings.Join(parameters, ","))

	compiler := protocompile.Compiler{
		Resolver:       protocompile.WithStandardImports(&protocompile.SourceResolver{ImportPaths: []string{root}}),
		SourceInfoMode: protocompile.SourceInfoStandard,
	}
	files, err := compiler.Compile(context.Background(), request.FileToGenerate...)
	if err != nil {
		return nil, err
	}
	known := map[string]bool{}
	for _, file := range files {
		request.ProtoFile = withImports(request.ProtoFile, known, file)
	}
	return request, nil
}

// withImports appends a file behind those that it imports, which is the order that plugins want.
func withImports(list []*descriptorpb.FileDescriptorProto, known map[string]bool, file protoreflect.FileDescriptor) []*descriptorpb.FileDescriptorProto {
	if known[file.Path()] {
		return list
	}
	known[file.Path()] = true
	for i := range file.Imports().Len() {
		list = withImports(list, known, file.Imports().Get(i).FileDescriptor)
	}
	return append(list, protodesc.ToFileDescriptorProto(file))
}

// run asks a plugin.
func run(plugin string, request *pluginpb.CodeGeneratorRequest) ([]*pluginpb.CodeGeneratorResponse_File, error) {
	input, err := proto.Marshal(request)
	if err != nil {
		return nil, err
	}
	command := exec.Command("go", "tool", plugin)
	command.Stdin, command.Stderr = bytes.NewReader(input), os.Stderr
	output, err := command.Output()
	if err != nil {
		return nil, err
	}
	var response pluginpb.CodeGeneratorResponse
	if err := proto.Unmarshal(output, &response); err != nil {
		return nil, err
	}
	if response.Error != nil {
		return nil, errors.New(response.GetError())
	}
	return response.File, nil
}
