"""Signatures of many languages, drawn from their grammars and written in words."""

from __future__ import annotations

import socket
import sys
import time
from pathlib import Path

import pytest

from ctx_pipeline.compression.reductions import stripped
from ctx_pipeline.compression.signatures import grammars, wheels
from ctx_pipeline.compression.signatures.drawing import outline
from ctx_pipeline.compression.signatures.symbols import CODE, WORDS, language_of, lines, read
from ctx_pipeline_tests.tokens.more_signatures import MORE_SAMPLES

SAMPLES = {
    "python": (
        '''LIMIT: int = 10
async def find(by: dict[str, int], *args: int, name: str | None = None) -> list[str]:
    """Find one.

    More.
    """
    def inner(): pass
class Box[T](Base):
    """Keeps."""
    MAX = 3
    def value(self, a, b=2): return 1
def _no(): pass
''',
        [
            "const pub LIMIT:int",
            "fn async pub find(by:dict[str, int], *args:n, name?:str | None) → list[str] — Find one.",
            "class pub Box<T>:Base — Keeps.",
            " const pub MAX:number",
            " fn pub value(a, b?)",
            "fn _no()",
        ],
    ),
    "typescript": (
        """/** Signs tokens. */
export const JWT_SECRET: string = "s";
export const add = async (a: number, b: Map<string, number>): Promise<number> => a;
const hidden = 3; // this is not the documentation of User
export interface User { greet(x: string): void; }
export type Id = string | number;
export enum Color { Red }
/**
 * Makes a user.
 * @param email the address
 */
export function createUser(email: string, opts?: { a: number, b: string }, ...rest: string[]): User { function inner() {} }
export default class Service<T> { static readonly MAX = 2; async run<K>(key: K): Promise<void> {} private hide() {} }
""",
        [
            "const pub JWT_SECRET:string — Signs tokens.",
            "fn async pub add(a:n, b:Map<string, number>) → Promise<number>",
            "const hidden:number",
            "interface pub User",
            " fn pub greet(x:s) → void",
            "type pub Id:string | number",
            "enum pub Color {Red}",
            "fn pub createUser(email:s, opts?:{ a: number, b: string }, ...rest:string[]) → User — Makes a user.",
            "class pub Service<T>",
            " const pub MAX:number",
            " fn async pub run<K>(key:K) → Promise<void>",
            " fn hide()",
        ],
    ),
    "tsx": ("export const Page = ({ a }: P) => <b>{a}</b>;\n", ["fn pub Page({ a }:P)"]),
    "javascript": (
        'const fs = require("fs");\nfunction plain(a, b = 2, ...c) {}\nmodule.exports = { plain };\nexports.LIMIT = 5;\n',
        ["fn pub plain(a, b?, ...c)", "const pub LIMIT:number"],
    ),
    "rust": (
        """/// Keeps users.
#[derive(Debug)]
pub struct Store<T> { items: Vec<T> }
pub trait Named { fn name(&self) -> String; }
pub const LIMIT: usize = 10;
impl<T: Clone> Store<T> {
    /// Adds one.
    pub async fn add(&mut self, item: T, index: HashMap<String, usize>) -> Result<(), Error> { fn inner() {} Ok(()) }
    fn size(&self) -> usize { 0 }
}
""",
        [
            "class pub Store<T> {items:Vec<T>} @derive(Debug) — Keeps users.",
            "interface pub Named",
            " fn pub name(&self) → String",
            "const pub LIMIT:usize",
            "impl<T: Clone> Store<T>",
            " fn async pub add(&mut self, item:T, index:HashMap<String, usize>) → Result<(), Error> — Adds one.",
            " fn size(&self) → usize",
        ],
    ),
    "go": (
        """package store
// Limit is the most.
const Limit = 10
// Store keeps items.
type Store struct { items map[string]int }
type Reader interface { Read(p []byte) (n int, err error) }
func New(a, b int, opts ...Option) *Store { return nil }
func (s *Store) Get(key string, m map[string]int) (int, error) { return 0, nil }
func hidden() {}
""",
        [
            "const pub Limit:number — Limit is the most.",
            "class pub Store {items:map[string]int} — Store keeps items.",
            "interface pub Reader",
            " fn pub Read(p:[]byte) → (n int, err error)",
            "fn pub New(a:n, b:n, opts:...Option) → *Store",
            "fn pub Store.Get(key:s, m:map[string]int) → (int, error)",
            "fn hidden()",
        ],
    ),
    "java": (
        """/** Keeps orders. */
public class Orders<T> {
  public static final int LIMIT = 10;
  private String name;
  /** Finds one. */
  @Override
  public Map<String, List<T>> find(Map<String, Integer> by, final int... ids) { return null; }
  private void hide() {}
}
""",
        [
            "class pub Orders<T> {name:String} — Keeps orders.",
            " const pub LIMIT:int",
            " fn pub find(by:Map<String, Integer>, ids:int...) → Map<String, List<T>> — Finds one.",
            " fn hide() → void",
        ],
    ),
    "c": (
        (
            "#define MAX 10\n/* Adds two. */\nstatic int add(const char *name, int b[]) { return 0; }\n"
            "struct point { int x; };\nint *find(int n);\n"
        ),
        [
            "const pub MAX:number",
            "fn add(name:const char *, b:int[]) → int — Adds two.",
            "class pub point {x:int}",
            "fn pub find(n:n) → int*",
        ],
    ),
    "cpp": (
        """/// A cart.
class Cart {
  int secret();
public:
  double total(const std::map<std::string, int>& prices) const;
  static constexpr int kMax = 3;
private:
  void hide();
};
template <typename T> T biggest(T a, T b) { return a; }
""",
        [
            "class pub Cart — A cart.",
            " fn secret() → int",
            " fn pub total(prices:const std::map<std::string, int>&) → double",
            " const pub kMax:int",
            " fn hide() → void",
            "fn pub biggest(a:T, b:T) → T",
        ],
    ),
    "csharp": (
        """/// <summary>Keeps.</summary>
public class Cart<T> {
  public const int Limit = 10;
  public async Task<Dictionary<string, int>> TotalAsync(Dictionary<string, int> by, params int[] xs) { return null; }
  private void Hide() {}
}
""",
        [
            "class pub Cart<T> — Keeps.",
            " const pub Limit:int",
            " fn async pub TotalAsync(by:Dictionary<string, int>, xs:params int[]) → Task<Dictionary<string, int>>",
            " fn Hide() → void",
        ],
    ),
    "ruby": (
        (
            "module Shop\n  LIMIT = 10\n  # Keeps.\n  class Cart\n    def total(tax = 0.1, max: 3, &block)\n"
            "    end\n    private\n    def hide; end\n  end\nend\n"
        ),
        ["module pub Shop", " const pub LIMIT:number", " class pub Cart — Keeps.", "  fn pub total(tax?, max:?, &block)", "  fn hide()"],
    ),
    "kotlin": (
        (
            "const val LIMIT = 10\n/** Finds. */\n"
            "suspend fun find(by: Map<String, Int>, n: Int = 3): List<User>? = null\nprivate fun hide() {}\n"
        ),
        ["const pub LIMIT:number", "fn async pub find(by:Map<String, Int>, n?:Int) → List<User>? — Finds.", "fn hide()"],
    ),
    "swift": (
        (
            "/// Limit.\npublic let limit: Int = 10\nstruct User {\n"
            "  func find(by map: [String: Int], _ x: Int = 3) async throws -> [User] { [] }\n"
            "  private func hide() {}\n}\n"
        ),
        [
            "const pub limit:Int — Limit.",
            "class pub User",
            " fn async pub find(by map:[String: Int], _ x?:Int) → [User] @throws",
            " fn hide()",
        ],
    ),
    "php": (
        (
            "<?php\nconst LIMIT = 10;\nclass Cart {\n  /** Finds. */\n"
            "  public function find(array $by, ?string $name = null): ?array {}\n  private function hide() {}\n"
            "}\n"
        ),
        ["const pub LIMIT:number", "class pub Cart", " fn pub find($by:array, $name?:?string) → ?array — Finds.", " fn hide()"],
    ),
    "scala": (
        "object Single { val Limit: Int = 10; def go[K](m: Map[String, Int], k: K): List[User] = Nil; private def hide() = 1 }\n",
        ["class pub Single @object", " const pub Limit:Int", " fn pub go<K>(m:Map[String, Int], k:K) → List[User]", " fn hide()"],
    ),
    "lua": (
        'local json = require("json")\n-- Limit.\nM.LIMIT = 10\nfunction M.find(a, ...) end\nlocal function hide(x) end\n',
        ["const pub M.LIMIT:number — Limit.", "fn pub M.find(a, ...)", "fn hide(x)"],
    ),
    "bash": (
        "#!/bin/bash\nreadonly LIMIT=10\n# Finds.\nfind_it() { local x=1; }\n",
        ["const pub LIMIT:number", "fn pub find_it() — Finds."],
    ),
    "elixir": (
        (
            'defmodule Shop.Cart do\n  @limit 10\n  @doc "Finds one."\n  def find(by, name \\\\ nil), do: nil\n'
            "  defp hide(x) do\n    x\n  end\nend\n"
        ),
        ["module pub Shop.Cart", " const limit", " fn pub find(by, name?) — Finds one.", " fn hide(x)"],
    ),
    "haskell": (
        "module Shop where\n-- | Finds.\nfind :: Map String Int -> Int -> Maybe Int\nfind m x = Nothing\nlimit :: Int\nlimit = 10\n",
        ["fn pub find(Map String Int, Int) → Maybe Int — Finds.", "const pub limit:Int"],
    ),
    "solidity": (
        (
            "contract Bank {\n  uint256 public constant LIMIT = 10;\n  /// Pays.\n"
            "  function pay(address to, uint256 amount) external returns (bool) {}\n"
            "  function hide() private {}\n}\n"
        ),
        ["class pub Bank", " const pub LIMIT:uint256", " fn pub pay(to:address, amount:uint256) → bool — Pays.", " fn hide()"],
    ),
    "dart": (
        (
            "/// Limit.\nconst int limit = 10;\nclass Cart<T> {\n"
            "  Future<List<T>> find(Map<String, int> by, {int? max}) async { return []; }\n  void _hide() {}\n}\n"
        ),
        [
            "const pub limit:number — Limit.",
            "class pub Cart<T>",
            " fn async pub find(by:Map<String, int>, *, max?:int?) → Future<List<T>>",
            " fn _hide() → void",
        ],
    ),
    "css": (
        (
            "/* The colors. */\n:root { --ink: #111; }\n.card > h2, a:hover { color: red }\n"
            "@media (max-width: 600px) { .card { display: none } }\n"
        ),
        [
            "rule pub :root — The colors.",
            " const pub --ink:#111",
            "rule pub .card > h2, a:hover",
            "rule pub @media (max-width: 600px)",
            " rule pub .card",
        ],
    ),
    "hcl": (
        'variable "region" {\n  type = string\n}\n# The store.\nresource "aws_s3_bucket" "logs" {\n  bucket = "x"\n  nested { a = 1 }\n}\n',
        ["block pub variable region:string", "block pub resource aws_s3_bucket logs — The store."],
    ),
    "nix": (
        '{ lib, pkgs ? null }:\nrec {\n  version = "1.2";\n  # Adds.\n  add = a: b: a + b;\n  open = { host, port ? 80 }: host;\n}\n',
        ["fn pub import(*, lib, pkgs?)", "const pub version:string", "fn pub add(a, b) — Adds.", "fn pub open(*, host, port?)"],
    ),
    "zig": (
        "/// Adds.\npub fn add(a: i32, b: []const u8) !i32 { return a; }\npub const limit: u32 = 10;\nfn hide() void {}\n",
        ["fn pub add(a:i32, b:[]const u8) → !i32 — Adds.", "const pub limit:u32", "fn hide() → void"],
    ),
}


@pytest.mark.feature("compress.signatures")
@pytest.mark.parametrize("language", sorted(SAMPLES))
def test_signatures_keep_constants_generics_and_the_first_line_of_documentation(language: str, monkeypatch: pytest.MonkeyPatch):
    def refused(*_: object) -> None:
        raise AssertionError("a grammar was asked for over the network")

    monkeypatch.setattr(socket.socket, "connect", refused)
    text, wanted = SAMPLES[language]
    found = lines(outline(text, language).symbols)

    assert found[: len(wanted)] == wanted


@pytest.mark.feature("compress.signatures")
@pytest.mark.parametrize("language", sorted(MORE_SAMPLES))
def test_signatures_of_a_language_with_a_grammar_of_its_own_stand_with_their_lines(language: str):
    if language in wheels.LANGUAGES:
        pytest.importorskip(wheels.LANGUAGES[language][0])
    text, wanted = MORE_SAMPLES[language]
    symbols = outline(text, language).symbols

    assert lines(symbols, located=True) == wanted
    assert read("\n".join(lines(symbols, located=True))) == [(s.kind, s.name) for s in symbols]


@pytest.mark.feature("compress.empty-files")
@pytest.mark.parametrize("language", sorted(MORE_SAMPLES))
@pytest.mark.parametrize(
    "text", ["", "(((((((", "}\n" * 500, "\x00\ufffd" * 90, '"', "<script", "\\"], ids=["empty", "(", "}", "binary", "q", "tag", "b"]
)
def test_text_that_is_no_code_of_such_a_language_declares_nothing(language: str, text: str):
    assert outline(text, language).symbols == ()


@pytest.mark.feature("compress.empty-files")
def test_a_grammar_of_its_own_that_goes_astray_is_stopped(monkeypatch):
    pytest.importorskip("tree_sitter_perl")
    monkeypatch.setattr(grammars, "SECONDS", 0.1)

    assert outline("<!--" * 100_000, "perl").symbols == ()


@pytest.mark.feature("compress.signatures")
def test_a_language_whose_grammar_is_not_installed_declares_nothing(monkeypatch):
    monkeypatch.setitem(sys.modules, "tree_sitter_sql", None)

    assert outline(MORE_SAMPLES["sql"][0], "sql").symbols == ()


@pytest.mark.feature("compress.signatures")
def test_every_language_that_is_named_has_a_sample_here():
    assert set(SAMPLES) | set(MORE_SAMPLES) == set(CODE)
    assert len(CODE) == 34


def test_a_file_is_told_by_its_name_or_by_the_program_of_its_first_line():
    assert language_of("src/App.TSX") == "tsx"
    assert language_of("C:\\shop\\Gemfile") == "ruby"
    assert language_of("run", "#!/usr/bin/env python3\n") == "python"
    assert language_of("LICENSE", "MIT") is None


@pytest.mark.feature("compress.notation")
def test_a_signature_is_written_in_words_with_short_names_of_the_plainest_types():
    found = outline(SAMPLES["typescript"][0], "typescript").symbols
    text = lines(found, documented=False)

    assert text[0] == "const pub JWT_SECRET:string"
    assert text[1] == "fn async pub add(a:n, b:Map<string, number>) → Promise<number>"
    assert text[7] == "fn pub createUser(email:s, opts?:{ a: number, b: string }, ...rest:string[]) → User"
    assert text[-1] == " fn hide()"


@pytest.mark.feature("compress.notation")
def test_an_implementation_in_rust_has_no_visibility_and_says_what_it_is_generic_over_first():
    text = "impl<T: Clone> From<T> for Cart<T> {\n    fn from(t: T) -> Self { todo!() }\n}\n"
    text += "unsafe impl Send for Cart<u8> {}\nimpl Cart<u8> {}\n"
    drawn = lines(outline(text, "rust").symbols, located=True)

    assert drawn == [
        "impl<T: Clone> From<T> for Cart<T> @L1-3",
        " fn from(t:T) → Self @L2",
        "impl Send for Cart<u8> @L4",
        "impl Cart<u8> @L5",
    ]


@pytest.mark.feature("compress.quality")
def test_names_are_read_back_out_of_signatures():
    for language, (text, _) in SAMPLES.items():
        symbols = outline(text, language).symbols
        wanted = [(s.kind, s.name.partition("<")[0] if s.kind == "implementation" else s.name) for s in symbols]

        assert read("\n".join(lines(symbols, located=True))) == wanted, language


@pytest.mark.feature("compress.map")
def test_imports_and_what_is_exported_from_elsewhere_are_found():
    found = outline('import { x } from "./x";\nexport { x as z } from "./z";\nexport const a = 1;\n', "typescript")

    assert found.imports == ("./x",)
    assert found.exports == ("z",)
    assert outline("from a.b import (c,\n  d)\nimport os\n", "python").imports == ("a.b", "os")
    assert outline('package p\nimport ("fmt"; "os")\n', "go").imports == ("fmt", "os")
    assert outline("use std::io::{Read, Write};\n", "rust").imports == ("std::io::{Read, Write}",)


def test_broken_code_still_tells_what_can_be_read_and_counts_what_cannot():
    found = outline("def a(): pass\n\ndef b(]]):::\n\nclass C: pass\n", "python")

    assert ("function", "a") in [(s.kind, s.name) for s in found.symbols]
    assert found.broken > 0
    assert outline("def a(): pass\n", "python").broken == 0


def test_the_lines_of_a_symbol_are_those_of_its_declaration():
    (found,) = outline("\n\ndef a():\n    x = 1\n    return x\n\n\n", "python").symbols

    assert (found.first, found.last) == (3, 5)


@pytest.mark.timeout(100)
def test_hostile_code_ends_soon():
    for language, text in {
        "javascript": "{" * 30_000,
        "rust": "fn a<" + "Vec<" * 20_000,
        "solidity": "contract A { uint constant x = " + "(" * 20_000,
        "python": "class A:\n " + "class B: " * 3_000,
    }.items():
        assert len(outline(text, language).symbols) <= 10_000


@pytest.mark.timeout(100)
@pytest.mark.feature("compress.empty-files")
@pytest.mark.parametrize("language", ["python", "go", "c", "rust"])
def test_text_that_keeps_a_parser_busy_for_minutes_declares_nothing(language, monkeypatch):
    monkeypatch.setattr(grammars, "SECONDS", 0.5)
    astray = "<!--" * 100_000

    assert outline(astray, language).symbols == ()
    assert stripped(astray, language) == astray


@pytest.mark.feature("compress.empty-files")
def test_text_whose_windows_take_long_and_that_ends_soon_is_read(monkeypatch):
    monkeypatch.setattr(grammars, "_ASTRAY", 0.0)
    text = "def a():\n    return 1\n" * 100

    assert len(outline(text, "python").symbols) == 100


@pytest.mark.feature("compress.symbols")
def test_the_page_says_what_every_word_means_and_names_every_language():
    page = (Path(__file__).resolve().parents[2] / "docs" / "compression.md").read_text("utf-8")

    assert [word for word in {*WORDS.values(), "pub", "async", "?"} if f"| `{word}` |" not in page] == []
    names = {
        "css": "CSS",
        "hcl": "HCL",
        "cpp": "C++",
        "csharp": "C#",
        "tsx": "TSX",
        "php": "PHP",
        "javascript": "JavaScript",
        "typescript": "TypeScript",
        "ocaml": "OCaml",
        "powershell": "PowerShell",
        "sql": "SQL",
    }
    assert [one for one in CODE if names.get(one, one.capitalize()) not in page] == []


@pytest.mark.feature("compress.signature-calls")
@pytest.mark.parametrize(
    ("language", "text", "expected"),
    [
        (
            "python",
            (
                "class Base(Exception, metaclass=Meta):\n    @property\n    def name(self) -> str:\n        return ''\n\n"
                "    @staticmethod\n    def make(x, /, y=3, *, z, **more): ...\n"
            ),
            [
                "class pub Base:Exception, metaclass=Meta",
                " prop pub name:str",
                " fn pub make(x, /, y?, *, z, **more) @staticmethod",
            ],
        ),
        (
            "rust",
            "pub struct Foo<T>(T);\npub trait Show { fn show(&self) -> u8; }\nimpl<T> Show for Foo<T> { fn show(&self) -> u8 { 1 } }\n",
            ["class pub Foo<T> {0:T}", "interface pub Show", " fn pub show(&self) → u8", "impl<T> Show for Foo<T>", " fn show(&self) → u8"],
        ),
        (
            "javascript",
            (
                "describe('cart', () => {\n  function total(items) { return 0 }\n  const later = async (z) => { return z }\n});\n"
                "(function () { class Hidden extends Base {} })();\n"
            ),
            ["fn total(items)", "fn async later(z)", "class Hidden:Base"],
        ),
        (
            "javascript",
            "app.get('/users', async function getUser(req, res) { const helper = () => 1 });\n",
            ["fn async getUser(req, res)", "fn helper()"],
        ),
        (
            "typescript",
            (
                "class A {\n  @HostListener('click')\n  // says when\n  onClick(e: Event): void {}\n  plain(): void {}\n"
                "  static make = async (x: T): Promise<T> => x;\n}\n"
            ),
            [
                "class A",
                " fn onClick(e:Event) → void @HostListener('click') — says when",
                " fn plain() → void",
                " fn async make(x:T) → Promise<T> @static",
            ],
        ),
        (
            "rust",
            "#[derive(Debug, Clone)]\npub struct A;\npub struct B;\n#[async_trait]\nimpl S for A {\n    #[inline]\n    fn f(&self) {}\n}\n",
            ["class pub A @derive(Debug, Clone)", "class pub B", "impl S for A @async_trait", " fn f(&self) @inline"],
        ),
        ("typescript", "@Injectable()\nexport class A extends B implements C {}\n", ["class pub A:B implements C @Injectable()"]),
        ("java", "public class A extends B implements C, D {}\n", ["class pub A:B, C, D"]),
        ("csharp", "public class A : B, IC {}\n", ["class pub A:B, IC"]),
        ("cpp", "class A : public B {};\n", ["class pub A:public B"]),
        ("ruby", "class A < B\nend\n", ["class pub A:B"]),
        ("swift", "public class A: B {}\n", ["class pub A:B"]),
    ],
)
def test_signatures_tell_what_a_call_needs_to_be_right(language, text, expected):
    found = outline(text, language).symbols

    assert lines(found) == expected
    named = [(s.kind, s.name.partition("<")[0] if s.kind == "implementation" else s.name) for s in found]
    assert read("\n".join(lines(found))) == named


@pytest.mark.feature("compress.signature-fields")
@pytest.mark.parametrize(
    ("language", "text", "expected"),
    [
        (
            "python",
            (
                "class Color(Enum):\n    RED = 1\n    BLUE = 2\n@dataclass\nclass P:\n    x: int\n    y: str = ''\n    LIMIT = 3\n"
                "    @property\n    def name(self) -> str: ...\n    @name.setter\n    def name(self, v): ...\n"
            ),
            [
                "class pub Color:Enum {RED, BLUE}",
                "class pub P {x:int, y?:str} @dataclass",
                " const pub LIMIT:number",
                " prop pub name:str",
                " prop pub name @name.setter",
            ],
        ),
        (
            "typescript",
            (
                "export class A { x?: number; private y = 1; get w(): number { return 1 } set w(v) {} }\n"
                "export interface I { a?: string; b(): void }\nexport enum E { A, B = 2 }\n"
            ),
            [
                "class pub A {x?:number, y}",
                " prop pub w:number",
                " prop pub w @set",
                "interface pub I {a?:string}",
                " fn pub b() → void",
                "enum pub E {A, B}",
            ],
        ),
        (
            "rust",
            "pub struct A { pub x: u32, y: Vec<u8> }\npub enum E { A, B(u32), C { x: u8 } }\n",
            ["class pub A {x:u32, y:Vec<u8>}", "enum pub E {A, B(u32), C { x: u8 }}"],
        ),
        (
            "go",
            'package p\ntype A struct { a, b int; C; e map[string]int `json:"x"` }\n',
            ["class pub A {a:int, b:int, C, e:map[string]int}"],
        ),
        ("java", "public enum E { A, B; private int q; }\n", ["enum pub E {A, B, q:int}"]),
        (
            "c",
            "typedef struct { int a; char *b; int (*cb)(int); } P;\nenum e { X, Y = 2 };\nstruct s { int n[3]; };\n",
            ["class pub P {a:int, b:char*, cb:int(*)(int)}", "enum pub e {X, Y}", "class pub s {n:int[3]}"],
        ),
        (
            "cpp",
            (
                "namespace {\nclass A { public: int a, *b; enum class E { X, Y }; void f(); };\n}\n"
                "A& A::operator=(const A& o) { return *this; }\n"
            ),
            ["class pub A {a:int, b:int*}", " enum pub E {X, Y}", " fn pub f() → void", "fn pub A::operator=(o:const A&) → A&"],
        ),
        (
            "cpp",
            (
                "class A {\n public:\n  friend class B;\n  friend bool\n"
                "  operator==(const A& a, const A& b) { return true; }\n  friend void swap(A& a, A& b);\n};\n"
            ),
            ["class pub A", " fn pub operator==(a:const A&, b:const A&) → bool", " fn pub swap(a:A&, b:A&) → void"],
        ),
        (
            "csharp",
            "public class A { public string N { get; set; } private int q; }\nenum C { X, Y = 2 }\n",
            ["class pub A {N:string, q:int}", "enum C {X, Y}"],
        ),
        (
            "kotlin",
            "enum class E { A, B }\nclass K(val x: Int) { var a: Int = 1 }\n",
            ["enum pub E {A, B}", "class pub K(val x:Int) {a:Int}"],
        ),
        (
            "swift",
            "enum E { case a, b(x: Int) }\nstruct S { var a: Int\n let b: String }\n",
            ["enum pub E {a, b(x: Int)}", "class pub S {a:Int, b:String}"],
        ),
        (
            "php",
            "<?php class A { public int $a = 1, $b; }\nenum E { case A; case B; }\n",
            ["class pub A {$a:int, $b:int}", "enum pub E {A, B}"],
        ),
        ("ruby", "class A\n attr_accessor :x, :y\n private def hide(a); end\nend\n", ["class pub A {x, y}", " fn hide(a)"]),
        ("scala", "class A(val x: Int) {\n  val a: Int = 1\n  var b = 2\n}\n", ["class pub A(val x:Int) {b}", " const pub a:Int"]),
        (
            "dart",
            "class A { final int a; String b = ''; int get z => 1; A.of(this.a); }\nenum E { x, y }\n",
            ["class pub A {a:int, b:String}", " prop pub z:int", " fn pub A.of(a)", "enum pub E {x, y}"],
        ),
        (
            "solidity",
            "contract C { uint256 a; struct S { address o; uint x; } enum E { P, Q } constructor(uint q) {} }\n",
            ["class pub C {a:uint256}", " class pub S {o:address, x:uint}", " enum pub E {P, Q}", " fn pub constructor(q:uint)"],
        ),
        (
            "zig",
            "const A = struct { x: u32, y: ?u8 = null };\nconst E = enum { a, b };\nconst Er = error{ X, Y };\n",
            ["class A {x:u32, y?:?u8}", "enum E {a, b}", "enum Er {X, Y}"],
        ),
        (
            "haskell",
            "module X where\ndata A = B { x :: Int, y :: Bool } | C Int String\n",
            ["class pub A {B, x:Int, y:Bool, C Int String}"],
        ),
        (
            "elixir",
            "defmodule A do\n  defstruct [:a, b: 1]\nend\ndefprotocol P do\n  def size(x)\nend\n",
            ["module pub A {a, b}", "interface pub P", " fn pub size(x)"],
        ),
        (
            "go",
            "package x\ntype S interface {\n\tio.Reader\n\t~int | ~string\n\tGet() error\n}\n",
            ["interface pub S {io.Reader, ~int | ~string}", " fn pub Get() → error"],
        ),
        ("typescript", "class A { @Input() name: string = ''; y = 1 }\n", ["class A {@Input() name:string, y}"]),
        ("javascript", "class A { x = 1; #h; get z() { return 1 } }\n", ["class A {x, #h}", " prop z"]),
        (
            "javascript",
            (
                "module.exports = class Pipe extends Stream { write(chunk, cb) {} get size() { return 1 } }\n"
                "exports.Tap = class { open(n) {} }\nconst Sink = class { end() {} }\nPipe.Inner = class { run() {} }\nthis.x = class {}\n"
            ),
            [
                "class pub Pipe:Stream",
                " fn pub write(chunk, cb)",
                " prop pub size",
                "class pub Tap",
                " fn pub open(n)",
                "class Sink",
                " fn end()",
                "class Pipe.Inner",
                " fn run()",
            ],
        ),
        ("lua", "local a, b = 1, 2\n", ["const a", "const b"]),
        ("bash", "LIMIT=3\nfind_it() { local x=1; }\n", ["const pub LIMIT:number", "fn pub find_it()"]),
    ],
)
def test_signatures_hold_fields_members_of_enums_and_properties(language, text, expected):
    found = outline(text, language).symbols

    assert lines(found, documented=False) == expected
    assert read("\n".join(lines(found, located=True))) == [(s.kind, s.name) for s in found]


def test_a_long_list_of_fields_says_how_many_more_there_are():
    members = ", ".join(f"M{n}" for n in range(100))
    (line,) = lines(outline(f"enum e {{ {members} }};\n", "c").symbols)

    assert line.startswith("enum pub e {M0, M1, ")
    assert line.endswith(", M59, +40}")


def test_a_header_is_c_or_c_plus_plus_by_what_it_says():
    assert language_of("a.h", "#include <vector>\nnamespace a { class B; }\n") == "cpp"
    assert language_of("a.h", "#include <stdio.h>\nint f(void);\n") == "c"
    assert language_of("a.h", "#import <Foundation/Foundation.h>\n@interface A : B\n@end\n") is None


def test_what_a_script_does_when_it_is_run_is_no_declaration():
    found = outline("LIMIT = 1\nif __name__ == '__main__':\n    parser = 2\n", "python").symbols

    assert [s.name for s in found] == ["LIMIT"]


HOSTILE = {
    "forms without end": ("elisp", "(" * 20_000 + ")" * 20_000),
    "a parameter without end": ("elisp", "(defun f (" + "(" * 20_000 + ")" * 20_000 + "))"),
    "messages in messages": ("protobuf", "message a {" * 3_000 + "}" * 3_000),
    "choices in choices": ("protobuf", "message a {" + "oneof a {" * 3_000 + "}" * 3_000 + "}"),
    "one comment above many": ("protobuf", "//\n" * 20_000 + "message a{}" * 2_000),
    "many statements": ("protobuf", "message A { string a = 1; }\n" * 8_000),
    "scripts that never close": ("svelte", "<script>\nlet a=1;\n" * 2_000),
    "tags that never close": ("vue", "<script " * 60_000),
    "macros of macros": ("julia", "@inline " * 3_000 + "f() = 1"),
    "many bindings": ("ocaml", "let f x = x" + "\nand f x = x" * 6_000),
    "a long comment": ("perl", "# x\n" * 30_000 + "sub a { my $x = shift; }\n"),
    "blanks": ("sql", "create trigger a" + " " * 20_000 + "before insert on b for each row execute function f();"),
}


@pytest.mark.feature("compress.signatures")
@pytest.mark.timeout(120)
@pytest.mark.parametrize("case", HOSTILE)
def test_no_file_is_drawn_without_end_or_ends_the_program(case: str):
    language, text = HOSTILE[case]

    began = time.thread_time()
    outline(text, language)

    assert time.thread_time() - began < 2 * grammars.SECONDS


@pytest.mark.feature("compress.signatures")
def test_a_script_that_names_a_script_tag_is_drawn_once():
    first = "<script>\nconst a = '<script>';\nexport function f() {}\n</script>\n<p/>\n"
    text = f"{first}<script lang='ts'>\nexport const b: number = 1;\n</script>\n"

    assert [(s.name, s.first) for s in outline(text, "vue").symbols] == [("a", 2), ("f", 3), ("b", 7)]


@pytest.mark.feature("compress.signatures")
def test_a_type_stands_without_what_annotated_says_beside_it():
    text = (
        'def read(path: Annotated[str, Field(description="a, b] c")], names: list[Annotated[str, Field(max_length=9)]] | None = None)'
        " -> Annotated[int, Doc('x')]: ...\n"
        "def apart(at: dict[Annotated[str, A], Annotated[list[Annotated[int, B]], C]]): ...\n"
    )
    assert lines(outline(text, "python").symbols) == [
        "fn pub read(path:s, names?:list[str] | None) → int",
        "fn pub apart(at:dict[str, list[int]])",
    ]
