//! Compiles the protobuf files with a compiler written in Rust (no `protoc` needed) and attaches the text form:
//! every message can be read and written by serde, enums as words, unknown fields refused by name. Of configuration what has its default is left
//! out; of what is told of a running system, numbers, truth values and lists stand there in any case, so that whoever reads it needn't know defaults.

use std::collections::{BTreeMap, BTreeSet};
use std::error::Error;
use std::fmt::Write as _;
use std::path::{Path, PathBuf};

use prost_types::field_descriptor_proto::{Label, Type};
use prost_types::{DescriptorProto, EnumDescriptorProto, FieldDescriptorProto, FileDescriptorSet};
use tonic_prost_build::Builder;

fn main() -> Result<(), Box<dyn Error>> {
    println!("cargo:rerun-if-changed=proto");
    let files = protobuf_files(Path::new("proto/quiver/v1"))?;
    let descriptors = protox::compile(files, ["proto"])?;

    let out = PathBuf::from(std::env::var("OUT_DIR")?);
    std::fs::write(out.join("words.rs"), words(&descriptors)?)?;

    std::fs::write(out.join("texts.rs"), texts(&descriptors)?)?;

    let configuration = configuration(&descriptors);
    let mut builder = tonic_prost_build::configure();
    for file in &descriptors.file {
        for message in &file.message_type {
            builder = text_form(builder, file.package(), message, &configuration);
        }
    }
    builder.compile_fds(descriptors)?;
    Ok(())
}

/// All protobuf files of a folder, sorted so that the build is reproducible.
fn protobuf_files(folder: &Path) -> Result<Vec<PathBuf>, Box<dyn Error>> {
    let mut files = Vec::new();
    for entry in std::fs::read_dir(folder)? {
        let path = entry?.path();
        if path.extension().is_some_and(|extension| extension == "proto") {
            files.push(path);
        }
    }
    files.sort();
    Ok(files)
}

/// Names of all messages that configuration is written in.
fn configuration(descriptors: &FileDescriptorSet) -> BTreeSet<String> {
    let messages: BTreeMap<String, &DescriptorProto> = descriptors
        .file
        .iter()
        .flat_map(|file| {
            let name = |message: &DescriptorProto| format!(".{}.{}", file.package(), message.name());
            file.message_type.iter().map(move |message| (name(message), message))
        })
        .collect();
    let (mut found, mut open) = (BTreeSet::new(), vec![".quiver.v1.Config".to_owned()]);
    while let Some(name) = open.pop() {
        if let Some(message) = messages.get(&name)
            && found.insert(name)
        {
            open.extend(message.field.iter().filter_map(|field| field.type_name.clone()));
        }
    }
    found
}

/// Attaches serde to one message and its fields.
fn text_form(
    mut builder: Builder,
    package: &str,
    message: &DescriptorProto,
    configuration: &BTreeSet<String>,
) -> Builder {
    let path = format!(".{package}.{}", message.name());
    builder = builder
        .message_attribute(&path, "#[derive(::serde::Serialize, ::serde::Deserialize)]")
        .message_attribute(
            &path,
            match message.name() {
                // Its port stands directly among its fields, which derived code can't do while it refuses
                // unknown fields.
                "Interface" => {
                    "#[serde(try_from = \"crate::text::interface::InterfaceText\", \
                     into = \"crate::text::interface::InterfaceText\")]"
                }
                _ => "#[serde(default, deny_unknown_fields)]",
            },
        );
    if message.name() == "Interface" {
        return builder;
    }
    for oneof in &message.oneof_decl {
        let real = message.field.iter().any(|field| {
            !field.proto3_optional()
                && field.oneof_index.and_then(|index| message.oneof_decl.get(index as usize)) == Some(oneof)
        });
        if real {
            builder = builder.type_attribute(
                format!("{path}.{}", oneof.name()),
                "#[derive(::serde::Serialize, ::serde::Deserialize)] #[serde(rename_all = \"snake_case\")]",
            );
        }
    }
    for field in &message.field {
        if field.oneof_index.is_none() || field.proto3_optional() {
            let form = field_form(message, field, configuration.contains(&path));
            builder = builder.field_attribute(format!("{path}.{}", field.name()), form);
        }
    }
    builder
}

/// The serde attribute of one field.
fn field_form(message: &DescriptorProto, field: &FieldDescriptorProto, is_configured: bool) -> String {
    let is_text = matches!(field.r#type(), Type::String | Type::Bytes | Type::Enum | Type::Message);
    let is_list = field.label() == Label::Repeated;
    let mut arguments = Vec::new();
    if is_configured || field.proto3_optional() || is_text && !is_list {
        arguments.push("skip_serializing_if = \"crate::text::is_default\"".to_owned());
    }
    match field.r#type() {
        Type::Enum => {
            let name = field.type_name().rsplit('.').next().unwrap_or_default();
            arguments.push(format!("with = \"crate::text::Word::<crate::v1::{name}>\""));
        }
        Type::Bytes => arguments.push("with = \"crate::text::hex\"".to_owned()),
        _ => {}
    }
    // `[[interface]]` reads better than `[[interfaces]]` at the head of each.
    if message.name() == "Config" && field.label() == Label::Repeated {
        arguments.push(format!("rename = \"{}\"", field.name().trim_end_matches('s')));
    }
    format!("#[serde({})]", arguments.join(", "))
}

/// `impl Words` for every enum: the word is the value's name without the common prefix, in lower case.
fn words(descriptors: &FileDescriptorSet) -> Result<String, Box<dyn Error>> {
    let mut code = String::new();
    for enumeration in descriptors.file.iter().flat_map(|file| &file.enum_type) {
        let name = enumeration.name();
        let prefix =
            prefix(enumeration).ok_or_else(|| format!("enum {name}: first value isn't …_UNSPECIFIED"))?;
        let words = enumeration
            .value
            .iter()
            .skip(1)
            .map(|value| value.name().trim_start_matches(&prefix).to_lowercase())
            .collect::<Vec<_>>();
        writeln!(
            code,
            "impl Words for crate::v1::{name} {{\n    const PREFIX: &'static str = {prefix:?};\n    \
             const WORDS: &'static [&'static str] = &{words:?};\n    \
             fn proto_name(&self) -> &'static str {{ self.as_str_name() }}\n    \
             fn from_proto_name(name: &str) -> Option<Self> {{ Self::from_str_name(name) }}\n}}"
        )?;
    }
    Ok(code)
}

/// `impl Texts` for every message.
fn texts(descriptors: &FileDescriptorSet) -> Result<String, Box<dyn Error>> {
    let mut code = String::new();
    for message in descriptors.file.iter().flat_map(|file| &file.message_type) {
        if !message.nested_type.is_empty() {
            return Err(format!(
                "message {}: maps and messages within messages aren't known here",
                message.name()
            )
            .into());
        }
        let name = message.name();
        writeln!(code, "impl crate::escape::Texts for crate::v1::{name} {{\n    fn escape(&mut self) {{")?;
        let (mut oneofs, mut any) = (BTreeMap::<i32, String>::new(), false);
        for field in &message.field {
            let Some(call) = escape_call(name, field) else { continue };
            any = true;
            let ident = ident(field.name());
            match (field.label(), field.oneof_index) {
                (Label::Repeated, _) => writeln!(code, "        for it in &mut self.{ident} {{ {call} }}")?,
                (_, Some(index)) if !field.proto3_optional() => {
                    let arm = format!("Some({}(it)) => {{ {call} }} ", camel(field.name()));
                    oneofs.entry(index).or_default().push_str(&arm.replace("Some(", "Some(ONEOF::"));
                }
                _ if field.r#type() == Type::String && !field.proto3_optional() => {
                    writeln!(code, "        {{ let it = &mut self.{ident}; {call} }}")?;
                }
                _ => writeln!(code, "        if let Some(it) = &mut self.{ident} {{ {call} }}")?,
            }
        }
        for (index, arms) in oneofs {
            let oneof =
                message.oneof_decl.get(usize::try_from(index)?).ok_or("a oneof that isn't declared")?.name();
            let path = format!("crate::v1::{}::{}", snake(name), camel(oneof));
            let arms = arms.replace("ONEOF", &path);
            writeln!(code, "        match &mut self.{} {{ {arms}_ => {{}} }}", ident(oneof))?;
        }
        if !any {
            writeln!(code, "        let _ = self;")?;
        }
        writeln!(code, "    }}\n}}")?;
    }
    Ok(code)
}

/// What escapes a field's value `it`; none where it has no text.
fn escape_call(message: &str, field: &FieldDescriptorProto) -> Option<&'static str> {
    match field.r#type() {
        // What a node has seen of a packet is several lines.
        Type::String if (message, field.name()) == ("TraceStep", "text") => {
            Some("crate::escape::lines_in_place(it);")
        }
        Type::String => Some("crate::escape::in_place(it);"),
        Type::Message => Some("crate::escape::Texts::escape(it);"),
        _ => None,
    }
}

/// A field's name in Rust.
fn ident(name: &str) -> String {
    let is_keyword = ["type", "match", "in", "ref", "move", "loop", "use", "where"].contains(&name);
    if is_keyword { format!("r#{name}") } else { name.to_owned() }
}

/// `NextHop` for `next_hop`.
fn camel(name: &str) -> String {
    let words = name.split('_').map(|word| {
        let (first, rest) = word.split_at(word.len().min(1));
        first.to_uppercase() + rest
    });
    words.collect()
}

/// `next_hop` for `NextHop`.
fn snake(name: &str) -> String {
    let mut snake = String::new();
    for (at, character) in name.char_indices() {
        if character.is_uppercase() && at > 0 {
            snake.push('_');
        }
        snake.extend(character.to_lowercase());
    }
    snake
}

/// `MEMIF_ROLE_` for `enum MemifRole { MEMIF_ROLE_UNSPECIFIED = 0; … }`.
fn prefix(enumeration: &EnumDescriptorProto) -> Option<String> {
    enumeration.value.first()?.name().strip_suffix("UNSPECIFIED").map(str::to_owned)
}
