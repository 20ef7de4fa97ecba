"""Snippets of the languages whose grammar is a package of its own, or stands in this one, and their signatures with lines."""

MORE_SAMPLES = {
    "elisp": (
        """;;; shop.el --- carts -*- lexical-binding: t -*-
(require 'cl-lib)
(defcustom shop-limit 10 "Most items." :type 'integer)
(defvar shop--cache nil)
(defconst shop-open ?\\( "A char.")
(defun shop-add (item &optional count &rest more)
  "Add ITEM; a \\"quoted\\" one.
More."
  (interactive)
  (let ((x ?\\")) `(,x ,@more [1 2])))
(defmacro shop-with (cart &body body) `(progn ,@body))
(cl-defstruct (shop-cart (:constructor mk)) "Doc." items (name "x"))
(cl-defmethod shop-show ((c shop-cart) &optional full) nil)
(when t (defun shop--inner () nil))
(define-minor-mode shop-mode "Toggle." :lighter " S")
(define-derived-mode shop-list-mode special-mode "Shop" "List carts.")
(provide 'shop)
""",
        [
            "const pub shop-limit @defcustom @L3 — Most items.",
            "const shop--cache @L4",
            "const pub shop-open @L5 — A char.",
            'fn pub shop-add(item, count?, &rest more) @L6-10 — Add ITEM; a "quoted" one.',
            "fn pub shop-with(cart, &body body) @defmacro @L11",
            "class pub shop-cart {items, name} @L12 — Doc.",
            "fn pub shop-show(c:shop-cart, full?) @cl-defmethod @L13",
            "fn shop--inner() @L14",
            "fn pub shop-mode() @L15 — Toggle.",
            "fn pub shop-list-mode() @L16 — List carts.",
        ],
    ),
    "julia": (
        """module Shop
using LinearAlgebra
import Base: show
export Cart, total
\"\"\"
A cart.
\"\"\"
struct Cart{T<:Real} <: AbstractCart
    items::Vector{T}
    name::String
end
mutable struct Box
    x
    y::Int
end
abstract type AbstractCart end
const LIMIT = 10
function total(c::Cart, tax=0.2; round::Bool=false, kw...)::Float64
    inner(x) = x
end
area(r::Float64) = pi * r^2
Base.show(io::IO, c::Cart) = print(io, "x")
macro twice(ex) ex end
@enum Color red green
end
""",
        [
            "module pub Shop @L1-25",
            " class pub Cart<T<:Real>:AbstractCart {items:Vector{T}, name:String} @L8-11 — A cart.",
            " class Box {x, y:Int} @L12-15",
            " interface AbstractCart @L16",
            " const LIMIT @L17",
            " fn pub total(c:Cart, tax?, *, round?:Bool, kw...) → Float64 @L18-20",
            " fn area(r:Float64) @L21",
            " fn Base.show(io:IO, c:Cart) @L22",
            " fn @twice(ex) @L23",
            " enum Color {red, green} @L24",
        ],
    ),
    "ocaml": (
        """open Printf
(** A point. *)
type point = { x : int; mutable y : float }
type shape = Circle of float | Square
type 'a tree = Leaf | Node of 'a tree * 'a
exception Bad of string
module M = struct let inner a = a end
module type S = sig val go : int -> string end
(** Adds. *)
let add ?(z = 1) ~label x (y : int) : int = x + y
let rec fact = function 0 -> 1 | n -> n
let limit = 10
and other b = b
class counter init = object val mutable n = init method incr d = n <- n + d end
external ext : int -> int = "c_ext"
let () = print_endline "x"
""",
        [
            "class pub point {x:int, y:float} @L3 — A point.",
            "enum pub shape {Circle of float, Square} @L4",
            "enum pub tree<'a> {Leaf, Node of 'a tree * 'a} @L5",
            "type pub Bad:exception of string @L6",
            "module pub M @L7",
            " fn pub inner(a) @L7",
            "interface pub S @L8",
            " fn pub go(n) → string @L8",
            "fn pub add(~z?, ~label, x, y:n) → int @L10 — Adds.",
            "fn pub fact(_) @L11",
            "const pub limit @L12-13",
            "fn pub other(b) @L13",
            "class pub counter(init) @L14",
            " fn pub incr(d) @L14",
            "fn pub ext(n) → int @L15",
        ],
    ),
    "perl": (
        """#!/usr/bin/perl
package Shop::Cart;
use strict;
use Moo;
use constant LIMIT => 10;
use constant { A => 1, B => 2 };
our $VERSION = '1.0';
our @EXPORT_OK = qw(total);
my %cache;
has items => (is => 'ro', default => sub { [] });

# Adds an item.
sub add {
    my ($self, $item, %opts) = @_;
    my $inner = sub { 1 };
    return $self;
}

sub total($x, $y = 2, @rest) { $x }
sub _private { my $self = shift; my $n = shift || 1; }

=head2 remove

Removes.

=cut
sub remove { }
package Other {
  sub go { }
}
1;
""",
        [
            "class pub Shop::Cart {items} @L2-27",
            " const pub LIMIT @L5",
            " const pub A @L6",
            " const pub B @L6",
            " const pub $VERSION @L7",
            " const pub @EXPORT_OK @L8",
            " fn pub add($item, %opts) @L13-17 — Adds an item.",
            " fn pub total($x, $y?, @rest) @L19",
            " fn _private($n?) @L20",
            " fn pub remove() @L27 — Removes.",
            "module pub Other @L28-30",
            " fn pub go() @L29",
        ],
    ),
    "powershell": (
        """# Gets a user.
function Get-User {
    param([string]$Name, [int]$Age = 3, [Parameter(Mandatory)][switch]$Force)
    $x = 1
}
function Simple($a, $b) { }
class Point : Base {
    [int]$X
    static [string]$Name = "p"
    Point([int]$x) { $this.X = $x }
    [int] Area([int]$h, $w) { return 1 }
}
enum Color { Red; Green = 2 }
$Global:Limit = 10
Import-Module Foo
""",
        [
            "fn pub Get-User($Name?:s, $Age?:n, $Force:switch) @L2-5 — Gets a user.",
            "fn pub Simple($a?, $b?) @L6",
            "class pub Point:Base {X:int, Name:string} @L7-12",
            " fn pub Point($x:n) @L10",
            " fn pub Area($h:n, $w) → int @L11",
            "enum pub Color {Red, Green} @L13",
        ],
    ),
    "protobuf": (
        """syntax = "proto3";
package shop.v1;
import "google/protobuf/timestamp.proto";
option java_package = "x";
// A cart.
message Cart {
  string id = 1; // the id
  repeated Item items = 2 [deprecated = true];
  map<string, int32> counts = 3;
  optional int32 age = 5;
  oneof pay { Card card = 6; string cash = 7; }
  message Item { string sku = 1; }
  enum State { NEW = 0; DONE = 1; }
  reserved 8 to 10;
}
/* Keeps carts.
 */
service Carts {
  // Gets one.
  rpc Get(GetRequest) returns (Cart) { option (google.api.http) = { get: "/v1/{id=*}" }; }
  rpc Watch (stream GetRequest) returns (stream Cart);
}
message Empty {}
""",
        [
            "class pub Cart {id:string, items:[Item], counts:map<string,int32>, age?:int32, card?:Card, cash?:string} @L6-15 — A cart.",
            " class pub Item {sku:string} @L12",
            " enum pub State {NEW, DONE} @L13",
            "interface pub Carts @L18-22 — Keeps carts.",
            " fn pub Get(GetRequest) → Cart @L20 — Gets one.",
            " fn pub Watch(stream GetRequest) → stream Cart @L21",
            "class pub Empty @L23",
        ],
    ),
    "sql": (
        """-- Customers.
CREATE TABLE IF NOT EXISTS shop.customers (
  id BIGSERIAL PRIMARY KEY,
  email VARCHAR(255) NOT NULL UNIQUE,
  balance NUMERIC(10, 2) DEFAULT 0,
  CONSTRAINT c CHECK (balance > 0),
  FOREIGN KEY (id) REFERENCES o(id)
);
CREATE UNIQUE INDEX idx_email ON shop.customers (email);
CREATE VIEW active AS SELECT id, email FROM customers WHERE active;
CREATE TYPE mood AS ENUM ('sad', 'ok');
CREATE OR REPLACE FUNCTION add_em(x integer, y integer DEFAULT 1) RETURNS integer AS $$ SELECT x + y; $$ LANGUAGE SQL;
CREATE TRIGGER t BEFORE UPDATE ON customers FOR EACH ROW EXECUTE FUNCTION f();
INSERT INTO customers VALUES (1);
CREATE PROCEDURE insert_data(a integer) LANGUAGE SQL AS $$ INSERT INTO t VALUES (a); $$;
ALTER TABLE customers ADD COLUMN age int;
CREATE SEQUENCE s;
CREATE MATERIALIZED VIEW mv AS SELECT count(*) AS n FROM customers;
""",
        [
            "block pub table shop.customers {id:BIGSERIAL, email:VARCHAR(255), balance:NUMERIC(10, 2)} @L2-8 — Customers.",
            "block pub index idx_email on shop.customers(email) @L9",
            "block pub view active {id, email} @L10",
            "enum pub mood {sad, ok} @L11",
            "fn pub add_em(x:integer, y?:integer) → integer @L12",
            "block pub trigger t BEFORE UPDATE ON customers FOR EACH ROW @L13",
            "fn pub insert_data(a:integer) @L15",
            "block pub sequence s @L17",
            "block pub materialized view mv {n} @L18",
        ],
    ),
    "svelte": (
        """<script lang="ts">
  import Cart from "./Cart.svelte";
  export let items: string[] = [];
  function total(of: number[]): number { return of.length; }
</script>

{#if items.length > 0}
  <Cart {items} on:add={() => total([1])} />
{/if}
""",
        [
            "const pub items:string[] @L3",
            "fn total(of:number[]) → number @L4",
        ],
    ),
    "vue": (
        """<template>
  <div @click="go">x</div>
</template>
<script setup lang="ts">
import { ref } from "vue";
const count = ref<number>(0);
function go(event: Event): void { if (1 < 2) {} }
</script>
<style>.a { color: red }</style>
""",
        [
            "const count @L6",
            "fn go(event:Event) → void @L7",
        ],
    ),
}
