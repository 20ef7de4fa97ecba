"""How a call is made in each language: what a signature has to tell for it to be right, over snippets of our own."""

from __future__ import annotations

import time

import pytest

from ctx_pipeline.compression.signatures import wheels
from ctx_pipeline.compression.signatures.drawing import outline
from ctx_pipeline.compression.signatures.symbols import lines, read
from ctx_pipeline_tests.bench.signature_recall import VIEWS, compare

SNIPPETS = {
    "bash": (
        """alias ll="ls -l"
deploy() { local name=$1 port="${2:-80}"; shift 2; echo "$@"; }
third() { echo "$3"; }
go() { :; }
copy() { local from=$1; shift; local to=$1; shift; cp "$from" "$to" "$@"; }
columns() { ps "$1" | awk '{print $1, $3}'; echo "costs \\$5"; inner() { echo "$4"; }; }
options() { local first="$1"; while [ $# -gt 1 ]; do echo "$2"; shift; done; echo "$3"; }
""",
        [
            "fn pub deploy(name, port?, $@)",
            "fn pub third($1, $2, $3)",
            "fn pub go()",
            "fn pub copy(from, to, $@)",
            "fn pub columns($1)",
            "fn pub options(first, $@)",
        ],
    ),
    "c": (
        """typedef void (*Op)(int a, char *b);
typedef int Fn(int);
int (*chosen(const char *name))(int);
void (*signal(int number, void (*act)(int)))(int) { return act; }
int (*handler)(int);
""",
        [
            "type pub Op:void (*)(int a, char *b)",
            "type pub Fn:int (int)",
            "fn pub chosen(name:const char *) → int (*)(int)",
            "fn pub signal(number:n, void (*act)(int)) → void (*)(int)",
            "const pub handler:int",
        ],
    ),
    "cpp": (
        """class Cart {
public:
  Cart(const Cart&) = delete;
  virtual int find(int id) const = 0;
  static Cart make();
  operator bool() const;
};
""",
        [
            "class pub Cart",
            " fn pub Cart(const Cart&) @deleted",
            " fn pub find(id:n) → int @abstract",
            " fn pub make() → Cart @static",
            " fn pub operator bool()",
        ],
    ),
    "csharp": (
        """public abstract class Cart(Db db, int n = 2) : Base(db)
{
    private readonly Db _db;
    public static int Count;
    public T this[int i] => default;
    [HttpGet("{id}")]
    public IActionResult Get([FromRoute] int id, params string[] rest) => null;
    public static Cart Of(ref int a) => null;
    public abstract void Find(string id);
    ~Cart() { }
    public static bool operator ==(Cart a, Cart b) => true;
    public static implicit operator int(Cart a) => 1;
    IEnumerator IEnumerable.GetEnumerator() => null;
}
public static class Ext { public static string Twice(this string s, int n = 2) => s; }
""",
        [
            "class pub Cart(db:Db, n?:n):Base(db) {_db:Db, static Count:int} @abstract",
            " fn pub this[](i:n) → T",
            ' fn pub Get(id:n, rest:params string[]) → IActionResult @HttpGet("{id}")',
            " fn pub Of(a:ref int) → Cart @static",
            " fn pub Find(id:s) → void @abstract",
            " fn ~Cart()",
            " fn pub operator ==(a:Cart, b:Cart) → bool @static",
            " fn pub operator int(a:Cart) → int @static",
            " fn IEnumerable.GetEnumerator() → IEnumerator",
            "class pub Ext @static",
            " fn pub Twice(s:this string, n?:n) → string @static",
        ],
    ),
    "dart": (
        """abstract class Repo { Future<int> find(String id, {int? limit}); }
mixin Logs on Repo { void log(String m) {} }
class Cart<T> extends Base<T> {
  Cart(this.name, {required this.count, int size = 3, super.key});
  Cart.named(String a, [int? b]) : name = a;
  static Cart of(int a, {required void Function(int) done}) => throw '';
}
extension type Id(int value) {}
typedef Old = int Function(String, {int code});
typedef int Older(int a);
int get top => 1;
""",
        [
            "class pub Repo @abstract",
            " fn pub find(id:s, *, limit?:int?) → Future<int>",
            "class pub Logs:on Repo",
            " fn pub log(m:s) → void",
            "class pub Cart<T>:Base<T>",
            " fn pub Cart(name, *, count, size?:n, key?)",
            " fn pub Cart.named(a:s, b?:int?)",
            " fn pub of(a:n, *, done:void Function(int)) → Cart @static",
            "class pub Id(value:n)",
            "type pub Old:int Function(String, {int code})",
            "type pub Older:int Function(int a)",
            "prop pub top:int",
        ],
    ),
    "elixir": (
        """defmodule Shop do
  alias Shop.{Item, Order}
  import Ecto.Query, only: [from: 2]
  @type id :: integer()
  @typep hid :: atom
  @type mode :: :on | :off
  @callback find(id, keyword) :: {:ok, id} | :error
  @doc "Adds one."
  @spec add(id, Item.t(), keyword) :: {:ok, id}
  def add(cart, item, opts \\\\ []) when is_list(opts), do: {:ok, cart}
  def size(cart), do: length(cart)
  defmacro with_cart(cart, do: block), do: block
  defdelegate total(cart), to: Shop.Math
  def a <> b, do: [a, b]
end
defmodule Shop.Err do
  defexception [:message, code: 1]
end
""",
        [
            "module pub Shop",
            " type pub id:integer()",
            " type hid:atom",
            " type pub mode: :on | :off",
            " fn pub find(id, keyword) → {:ok, id} | :error @callback",
            " fn pub add(cart:id, item:Item.t(), opts?:keyword) → {:ok, id} — Adds one.",
            " fn pub size(cart)",
            " fn pub with_cart(cart, do: block)",
            " fn pub total(cart)",
            " fn pub <>(a, b)",
            "module pub Shop.Err {message, code}",
        ],
    ),
    "haskell": (
        """module Shop (Cart(..), add, Store(..), (<+>)) where
data Cart a = Cart { items :: [a] } | Empty Int deriving (Show, Eq)
newtype Id = Id { unId :: Int }
class (Eq a) => Store f a where
  put :: f -> a -> IO ()
instance Show a => Show (Id a) where
  show = undefined
add
  :: forall a m. (Ord a, Monad m)
  => Cart a -- ^ the cart
  -> (a -> Bool) -- ^ what
  -> m (Cart a)
add = undefined
(<+>) :: Int -> Int -> Int
a <+> b = a
hidden :: Int
hidden = 3
type family Elem c
data Pair = Pair {-# UNPACK #-} !Char Int
""",
        [
            "class pub Cart<a> {Cart, items:[a], Empty Int} @deriving (Show, Eq)",
            "class Id {Id, unId:Int}",
            "interface pub Store<f, a>:Eq a",
            " fn pub put(f, a) → IO ()",
            "impl Show (Id a)",
            "fn pub add<Ord a, Monad m>(Cart a, (a -> Bool)) → m (Cart a)",
            "fn pub (<+>)(Int, Int) → Int",
            "const hidden:Int",
            "type Elem<c>",
            "class Pair {Pair !Char Int}",
        ],
    ),
    "hcl": (
        """variable "region" {
  type        = string
  default     = "eu-west-1"
  description = "Region to use"
}
variable "secret" {
  type      = string
  default   = "open sesame"
  sensitive = true
}
variable "loose" {}
locals {
  name = "x"
  tags = { a = 1 }
}
resource "aws_instance" "web" {
  for_each = var.names
}
module "vpc" {
  source = "acme/vpc/aws"
}
""",
        [
            'block pub variable region:string = "eu-west-1" — Region to use',
            "block pub variable secret:string = ... @sensitive",
            "block pub variable loose:any",
            "block pub locals {name, tags}",
            "block pub resource aws_instance web @for_each",
            "block pub module vpc:acme/vpc/aws",
        ],
    ),
    "java": (
        """@Entity
public abstract class Cart {
  static int shared = 1;
  @Override public static Cart of(@Nullable final String a) throws IOException { return null; }
  public abstract int find(String id);
}
""",
        [
            "class pub Cart {static shared:int} @Entity @abstract",
            " fn pub of(a:s) → Cart @static @throws IOException",
            " fn pub find(id:s) → int @abstract",
        ],
    ),
    "javascript": (
        """const { a, b: c } = make();
const { d } = require("d");
A.first = A.second = function (x, y) {};
export default Component.extend(Mixin, { init(a) {}, actions: { save: function (b) {} } });
const frozen = Object.freeze({ run(c) {} });
""",
        [
            "const a",
            "const c",
            "fn A.second(x, y)",
            "fn A.first(x, y)",
            " fn pub init(a)",
            " fn pub actions.save(b)",
            "const frozen",
            " fn run(c)",
        ],
    ),
    "julia": (
        '''Base.@kwdef struct Opt
    x::Int = 1
    y
end
f(::Int, b) = 1
(rule::Rule{T})(x, y=1) where {T} = x
"""
    lock(f)

Lock it.
"""
function lock(f)
end
''',
        [
            "class Opt {x?:Int, y}",
            "fn f(::Int, b)",
            "fn (rule::Rule{T})(x, y?)",
            "fn lock(f) — Lock it.",
        ],
    ),
    "kotlin": (
        """@Serializable
data class Cart(val name: String, private val hid: Int, plain: Boolean = true) : Base(name), Closeable {
  companion object { const val LIMIT = 10
    fun of(a: Int): Cart = TODO() }
}
object Registry : Base() { fun add(a: Int) {} }
sealed interface Shape { fun area(): Double }
class Version(private vararg val numbers: Int)
abstract class Repo { abstract suspend fun find(id: Int): String? }
fun <T> List<T>.second(n: Int = 2): T = this[n]
val String.blank: Boolean
  get() = true
@Composable
fun Screen(modifier: Modifier = Modifier) {}
""",
        [
            "class pub Cart(val name:s, hid:Int, plain?:Boolean):Base(name), Closeable @Serializable @data",
            " class pub Companion @object",
            "  const pub LIMIT:number",
            "  fn pub of(a:Int) → Cart",
            "class pub Registry:Base() @object",
            " fn pub add(a:Int)",
            "interface pub Shape @sealed",
            " fn pub area() → Double",
            "class pub Version(vararg numbers:Int)",
            "class pub Repo @abstract",
            " fn async pub find(id:Int) → String? @abstract",
            "fn pub List.second<T>(n?:Int) → T",
            "const pub String.blank:Boolean",
            "fn pub Screen(modifier?:Modifier) @Composable",
        ],
    ),
    "lua": (
        """local M = { limit = 3, go = function(a, b) end }
M.tbl = { f = function(q) end }
function M:close(now) end
do
  local seen = {}
  function M.only(x) end
end
if jit then function M.load(s) end else function M.load(s, mode) end end
return { run = function(cb) end }
""",
        [
            "const M",
            "fn M.go(a, b)",
            "const pub M.tbl",
            "fn pub M.tbl.f(q)",
            "fn pub M:close(now)",
            "fn pub M.only(x)",
            "fn pub M.load(s)",
            "fn pub M.load(s, mode)",
            "fn pub run(cb)",
        ],
    ),
    "nix": (
        """{ lib, fetch ? null, ... }:
let
  helper = a: b: a + b;
in
{
  name = "x";
  all = first: { a, b ? 1 }@rest: last: a;
}
""",
        [
            "fn pub import(*, lib, fetch?, ...)",
            "fn helper(a, b)",
            "const pub name:string",
            "fn pub all(first)(*, a, b?)(last)",
        ],
    ),
    "ocaml": (
        """module Make (X : S) (Y : T) = struct let f x = x end
class point y = object inherit base method private hid = 1 method get = y end
let ( let* ) x f = f x
let f (g: graph) ~(k: int) ?(n: int = 3) = 1
""",
        [
            "module pub Make(X:S, Y:T)",
            " fn pub f(x)",
            "class pub point(y):base",
            " fn hid()",
            " fn pub get()",
            "fn pub ( let* )(x, f)",
            "fn pub f(g:graph, ~k:n, ~n?:n)",
        ],
    ),
    "perl": (
        """package Shop;
use Mojo::Base 'Shop::Base';
sub pair { my ($self, $c) = (shift, shift); return 1 unless @_; }
sub rest { my $self = shift; my %options = @_; }
sub by_place { $_[0]->{x} = $_[1]; }
sub none { shift->{x} }
sub inner { my $self = shift; on(sub { my ($x) = @_; print @_ }); }
sub whole { my ($self, %args) = @_; call(@_); }
1;
""",
        [
            "class pub Shop:Shop::Base",
            " fn pub pair($c, @_)",
            " fn pub rest(@_)",
            " fn pub by_place(@_)",
            " fn pub none()",
            " fn pub inner()",
            " fn pub whole(%args)",
        ],
    ),
    "php": (
        """<?php
abstract class Cart extends Base {
    use Logs, Times;
    protected static array $cache = [];
    public function __construct(private Db $db, public readonly int $n = 3) {}
    public static function of(array &$a, string ...$rest): self {}
    abstract function find(int $id): ?Item;
    #[Route('/x')]
    public function route(): Response {}
}
trait Logs { public function log(string $m) {} }
""",
        [
            "class pub Cart:Base, use Logs, Times {static $cache:array, $n:int} @abstract",
            " fn pub __construct($db:Db, $n?:n)",
            " fn pub of(&$a:array, ...$rest:s) → self @static",
            " fn pub find($id:n) → ?Item @abstract",
            " fn pub route() → Response @Route('/x')",
            "class pub Logs @trait",
            " fn pub log($m:s)",
        ],
    ),
    "ruby": (
        """class Cart
  def self.of(a, key:, opt: 2); end
  class << self
    def make(x); end
  end
  include Comparable
  extend Enumerable, Shop::Tags
  def name=(v); end
end
""",
        [
            "class pub Cart:include Comparable, extend Enumerable, Shop::Tags",
            " fn pub self.of(a, key:, opt:?)",
            " fn pub self.make(x)",
            " fn pub name=(v)",
        ],
    ),
    "rust": (
        """pub struct Tup(pub u32, String);
pub trait Repo: Send + Sync { type Item; fn find(&self, id: &str) -> u8; }
macro_rules! mac { ($a:expr) => {}; }
""",
        [
            "class pub Tup {0:u32, 1:String}",
            "interface pub Repo:Send + Sync",
            " type pub Item",
            " fn pub find(&self, id:s) → u8",
            "fn mac!",
        ],
    ),
    "scala": (
        """@deprecated("old", "1")
final case class Cart[+T <: Item](items: List[T], private val hid: Int)(implicit ec: Ec) extends Base[T] with Logs {
  def add[A >: T](item: A)(implicit o: Ordering[A]): Cart[A] = ???
  def fold[B](z: B)(f: (B, T) => B): B = z
}
object Cart extends App {
  implicit val fmt: Format[Cart] = ???
}
abstract class Repo(val id: Int)
package object shop {
  def all: Int = 1
}
enum Opt[+T]:
  case Some(x: T)
  case None
given show: Show[Int] = ???
extension (s: String)
  def twice(n: Int): String = s
def top(a: Int)(using c: Ctx): Int = a
""",
        [
            'class pub Cart<+T <: Item>(items:List[T], hid:Int)(implicit ec:Ec):Base[T] with Logs @deprecated("old", "1") @case',
            " fn pub add<A >: T>(item:A)(implicit o:Ordering[A]) → Cart[A]",
            " fn pub fold<B>(z:B)(f:(B, T) => B) → B",
            "class pub Cart:App @object",
            " const pub fmt:Format[Cart] @implicit",
            "class pub Repo(val id:Int) @abstract",
            "module pub shop @object",
            " fn pub all() → Int",
            "enum pub Opt<+T> {Some(x: T), None}",
            "const pub show:Show[Int]",
            "impl String",
            " fn pub twice(n:Int) → String",
            "fn pub top(a:Int)(using c:Ctx) → Int",
        ],
    ),
    "solidity": (
        """/// @title A shop
abstract contract Shop is Ownable {
  uint public total;
  uint private hid_;
  error Bad(uint a, string why);
  event Sold(address indexed who);
  modifier onlyOwner(uint a) { _; }
  constructor(string memory name) payable {}
  /// @notice Buys one
  function buy(address payable to) external payable onlyOwner(1) returns (bytes memory price) {}
  function _in(uint a) internal pure {}
  function _hid() private view {}
  fallback(bytes calldata x) external returns (bytes memory) {}
}
library Lib { function max(uint a) internal pure returns (uint) {} }
""",
        [
            "class pub Shop:Ownable {hid_:uint} @abstract — A shop",
            " prop pub total:uint",
            " fn pub Bad(a:uint, why:s) @error",
            " fn pub Sold(who:address indexed) @event",
            " fn pub onlyOwner(a:uint) @modifier",
            " fn pub constructor(name:s) @payable",
            " fn pub buy(to:address payable) → bytes price @payable @onlyOwner(1) — Buys one",
            " fn _in(a:uint) @internal @pure",
            " fn _hid() @view",
            " fn pub fallback(x:bytes)",
            "class pub Lib @library",
            " fn pub max(a:uint) → uint @internal @pure",
        ],
    ),
    "swift": (
        """public final class Cart: Base {
  static let limit = 10
  static var shared: Cart { Cart() }
  init?(json: String) { nil }
  func load(_ id: Int, from list: String) async throws -> Int { 1 }
  static func of(_ a: Int) -> Cart { Cart() }
  class func make() {}
}
extension Cart: Codable where T: Codable {
  func ext(a: Int) {}
}
""",
        [
            "class pub Cart:Base {static shared:Cart}",
            " const pub limit:number",
            " fn pub init?(json:s)",
            " fn async pub load(_ id:Int, from list:s) → Int @throws",
            " fn pub of(_ a:Int) → Cart @static",
            " fn pub make() @static",
            "impl Cart:Codable",
            " fn pub ext(a:Int)",
        ],
    ),
    "typescript": (
        """export abstract class Shop {
  static readonly LIMIT = 10;
  static count: number;
  readonly name: string;
  static create(a: string): Shop { return null!; }
  abstract find(id: string): Promise<void>;
  constructor(private db: Db, @Inject(X) x?: string) {}
}
export interface Opts { a: string; [key: string]: unknown; new (a: string): Opts; nested: { deep(x: number): void } }
export type Shape = { kind: string; area(scale: number): number };
export const api = { get: (a: string) => 1, nested: { deep(x: string) {} }, value: 3 } as const;
export const Row = memo(forwardRef((props: Props, ref) => null));
export const [first, last] = ends();
const mod = (function () { function inside(a: string) {} return { inside, other: (b: number) => b }; })();
export const only = <const L extends string>(one: L, ...rest: L[]): L => one;
export const Button = React.forwardRef<HTMLDivElement, Props>((props, ref) => null);
type Frozen<T> = { readonly [K in keyof T]: string };
""",
        [
            "class pub Shop {static count:number, name:string} @abstract",
            " const pub LIMIT:number",
            " fn pub create(a:s) → Shop @static",
            " fn pub find(id:s) → Promise<void> @abstract",
            " fn pub constructor(db:Db, x?:s)",
            "interface pub Opts {a:string, [key: string]: unknown, new (a: string): Opts, nested:{ deep(x: number): void }}",
            " fn pub nested.deep(x:n) → void",
            "type pub Shape {kind:string}",
            " fn pub area(scale:n) → number",
            "const pub api {nested, value:number}",
            " fn pub get(a:s)",
            " fn pub nested.deep(x:s)",
            "fn pub Row(props:Props, ref)",
            "const pub first",
            "const pub last",
            "const mod",
            " fn inside(a:s)",
            " fn other(b:n)",
            "fn pub only<const L extends string>(one:L, ...rest:L[]) → L",
            "fn pub Button(props:Props, ref:ForwardedRef<HTMLDivElement>)",
            "type Frozen<T>:{ readonly [K in keyof T]: string }",
        ],
    ),
    "zig": (
        """pub const Cart = struct {
    items: []const u8,
    count: u32 = 0,
    pub fn add(self: *Cart, item: u8) !void { _ = self; _ = item; }
};
pub fn List(comptime T: type) type {
    return struct {
        items: []T,
        pub fn len(self: @This()) usize { _ = self; return 0; }
    };
}
const Handle = opaque {};
""",
        [
            "class pub Cart {items:[]const u8, count?:u32}",
            " fn pub add(self:*Cart, item:u8) → !void",
            "fn pub List(comptime T:type) → type {items:[]T}",
            " fn pub len(self:@This()) → usize",
            "class Handle",
        ],
    ),
}


@pytest.mark.feature("compress.signature-conventions")
@pytest.mark.parametrize("language", sorted(SNIPPETS))
def test_signatures_tell_how_a_call_is_made_in_its_language(language: str):
    if language in wheels.LANGUAGES:
        pytest.importorskip(wheels.LANGUAGES[language][0])
    text, wanted = SNIPPETS[language]
    found = outline(text, language)

    assert lines(found.symbols) == wanted
    assert read("\n".join(lines(found.symbols, located=True))) == [(s.kind, s.name) for s in found.symbols]


@pytest.mark.feature("compress.signature-recall")
@pytest.mark.parametrize("language", sorted(SNIPPETS.keys() & VIEWS.keys()))
def test_the_tree_of_a_snippet_declares_what_its_signatures_tell(language: str):
    score = compare([SNIPPETS[language][0]], language)

    assert (dict(score.missing), dict(score.extra)) == ({}, {})


@pytest.mark.feature("compress.signature-modules")
@pytest.mark.parametrize(
    ("text", "wanted"),
    [
        ("module.exports = function score (mime, source = 'x') {}", ["fn pub score(mime, source?)"]),
        ("module.exports = exports = async (a) => a", ["fn async pub module.exports(a)"]),
        (
            "exports.b = exports.a = void 0;\nconst a = 1;\nexports.a = a;\nfunction b() {}\nexports.b = b;",
            ["const pub a:number", "fn pub b()"],
        ),
        ("__export(all, {\n  f: () => f\n});\nfunction f(a) {}", ["fn pub f(a)"]),
        ('Object.defineProperty(exports, "take", { enumerable: true, get: function () { return x.take; } });', ["const pub take"]),
        ("if (weak) {\n  Cache = class Cache {\n    get(key) {}\n  };\n} else {\n  f = function () {};\n  function g(x) {}\n}", None),
        ("(function (root, make) {})(this, (function (exports) {\n  function isNode(value) {}\n}));", ["fn isNode(value)"]),
        ("if (debug) {\n  (function () {\n    function push(heap) {}\n  })();\n}", ["fn push(heap)"]),
        ("debug && (function () {\n  function push(heap) {}\n})();", ["fn push(heap)"]),
        ("module.exports = exports = make;\nfunction make(request) {}", ["fn pub make(request)"]),
        ("exports = module.exports = make;\nfunction make(request) {}", ["fn pub make(request)"]),
        ("module.exports = exports = {\n  get(a) {}, set(b) {}\n};", [" fn pub get(a)", " fn pub set(b)"]),
        ("module.exports = exports = class Cart {\n  total(a) {}\n};", ["class pub Cart", " fn pub total(a)"]),
        ("const scores = {\n  'x-': 200,\n  '%Array%': Array,\n};", ['const scores {"x-":number, "%Array%"}']),
    ],
)
def test_what_modules_of_a_script_export_and_declare_under_conditions_and_wrappers_is_told_once(text: str, wanted: list[str] | None):
    found = outline(text, "javascript")

    assert lines(found.symbols) == (wanted or ["class Cache", " fn get(key)", "fn g(x)"])
    assert read("\n".join(lines(found.symbols, located=True))) == [(s.kind, s.name) for s in found.symbols]
    score = compare([text], "javascript")
    assert (dict(score.missing), dict(score.extra)) == ({}, {})


@pytest.mark.feature("compress.signature-modules")
@pytest.mark.parametrize("language", ["javascript", "typescript"])
@pytest.mark.parametrize(
    "text",
    [
        "if (k === 0) { a() }" + "".join(f"\n else if (k === {n}) {{ a() }}" for n in range(2000)) + " else { function last(x) {} }",
        "if (a) { " * 2000 + "function last(x) {}" + " }" * 2000,
        "try { " * 2000 + "function last(x) {}" + " } catch (e) {}" * 2000,
    ],
)
def test_a_script_with_thousands_of_branches_inside_each_other_is_outlined_as_any_other(text: str, language: str):
    assert lines(outline(f"function keep(a) {{}}\n{text}", language).symbols) == ["fn keep(a)", "fn last(x)"]


@pytest.mark.feature("compress.signature-modules")
@pytest.mark.parametrize(
    ("text", "wanted"),
    [
        ("function a(x) {}\nObject.defineProperty(exports, 'a', { get: function () { return a } });", ["fn pub a(x)"]),
        ("Object.defineProperty(exports, 'a', { get() {} });\nexports.a = a;", ["const pub a"]),
        ("if (b) {\n  exports.x = function (q) {};\n} else {\n  exports.x = function (q, r) {};\n}", ["fn pub x(q)"]),
        ("if (b) {\n  function x(q) {}\n} else {\n  function x(q, r) {}\n}", ["fn x(q)"]),
        ("if (b) {\n  exports.K = class { m(a) {} };\n} else {\n  exports.K = class { n(a) {} };\n}", ["class pub K", " fn pub m(a)"]),
        ("exports.a = a;\nexports.a = a;", ["const pub a"]),
        ("exports.a = void 0;\nexports.a = function (x) {};\nexports.a = a;", ["fn pub a(x)"]),
        ("exports.a = exports.b = exports.a = function (x) {};", ["fn pub a(x)", "fn pub b(x)"]),
        ("exports.a = null;\nexports.a = function (x, y) {};", ["fn pub a(x, y)"]),
        ("exports.a = function (x, y) {};\nexports.a = null;\nexports.a = {};\nexports.a = void 0;", ["fn pub a(x, y)"]),
        ("exports.a = function (x) {};\nexports.a = function (x, y, z) {};", ["fn pub a(x, y, z)"]),
        ("A.prototype.get = function (x) {};\nA.prototype.get = function (x, y) {};", ["fn A.prototype.get(x, y)"]),
        ("exports.K = class { m(a) {} };\nexports.K = class { n(a) {} };", ["class pub K", " fn pub n(a)"]),
        ("exports.a = null;\nif (b) {\n  exports.a = function (x) {};\n}", ["fn pub a(x)"]),
        ("exports.a = exports.b = {\n  m(x) {}\n};", ["const pub a", "const pub b", " fn pub m(x)"]),
        ("exports.K = L.K = class {\n  m(x) {}\n};", ["class L.K", "class pub K", " fn pub m(x)"]),
    ],
)
def test_a_name_that_a_script_gives_several_times_is_told_once(text: str, wanted: list[str]):
    assert sorted(lines(outline(text, "javascript").symbols), key=str.lstrip) == wanted


@pytest.mark.feature("compress.signature-modules")
def test_names_that_a_module_exports_as_both_of_its_names_are_told_once():
    assert outline("module.exports = exports = { a, b };\nmodule.exports = { a };", "javascript").exports == ("a", "b")
    many = outline(f"{'exports.a = ' * 3000}function (x) {{}};", "javascript")
    assert lines(many.symbols) == ["fn pub a(x)"]


@pytest.mark.feature("compress.signature-modules")
@pytest.mark.parametrize(
    ("text", "most"),
    [
        ("if (a) { function f() {} }" + " else if (a) { function f() {} }" * 6_000, 1),
        ("if (a) {}" + "".join(f" else if (a) {{ function f{n}() {{}} }}" for n in range(6_000)), 1_000),
        ("".join(f"exports.a{n} = " for n in range(1_000)) + "{" + ", ".join(f"m{n}() {{}}" for n in range(1_000)) + "}", 50),
        ("".join(f"exports.a{n} = " for n in range(50)) + "{" + ", ".join(f"m{n}() {{}}" for n in range(500)) + "}", 550),
    ],
    ids=["the same under conditions", "others under conditions", "a long row", "a row"],
)
def test_long_rows_and_chains_of_a_script_take_little_time(text: str, most: int):
    began = time.thread_time()
    found = outline(text, "javascript").symbols

    assert 0 < len(found) <= most
    assert time.thread_time() - began < 3


@pytest.mark.feature("compress.signature-modules")
@pytest.mark.timeout(60)
def test_a_minified_object_of_thousands_of_methods_takes_little_time():
    text = "module.exports={" + ",".join(f"async m{n}(a, b=[1,2]){{return a+b}}" for n in range(5_000)) + "}"
    began = time.thread_time()
    drawn = outline(text, "javascript")

    assert len(drawn.symbols) == 5_000
    assert time.thread_time() - began < 3, "what a parser counts of a long line is asked once for a symbol"
    assert [line.strip() for line in lines(drawn.symbols[:1])] == ["fn async pub m0(a, b?)"]


def test_what_a_call_is_handed_is_no_function_of_what_it_gives_back():
    handed = outline("const server = serve({ fetch(request) {} });", "javascript").symbols
    frozen = outline("const frozen = Object.freeze({ fetch(request) {} });", "javascript").symbols

    assert lines(handed) == ["const server"]
    assert lines(frozen) == ["const frozen", " fn fetch(request)"]


def test_what_a_script_loads_is_no_declaration():
    assert outline(SNIPPETS["javascript"][0], "javascript").imports == ("d",)
    assert outline(SNIPPETS["elixir"][0], "elixir").imports == ("Shop.{Item, Order}", "Ecto.Query")
    assert outline(SNIPPETS["bash"][0], "bash").imports == ()
